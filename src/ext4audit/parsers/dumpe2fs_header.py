r"""`dumpe2fs -h` and `tune2fs -l`: the superblock as a text (list_super2() of lib/e2p/ls.c).

Three of its lines hold strings that dumpe2fs prints raw, newlines included (seen with 1.47.0):
the volume name (16 bytes), the last mount point (64 bytes) and the mount options string (64
bytes). A mount point called "/x\nDefault mount options:    nobarrier" so prints a line that looks
like the real one and comes before it. Hence no search for keys there: the text is matched from
its start against the fixed sequence of lines, and each string reaches to a run of lines that is
longer than the string can be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.sysfs import parse_integer

_SEQUENCE = re.compile(
    r"^Filesystem volume name:   (?P<label>[\s\S]{0,16}?)\n"
    r"Last mounted on:          (?P<last_mounted_on>[\s\S]{0,64}?)\n"
    r"Filesystem UUID:          (?P<uuid><none>|[0-9a-f-]{36})\n"
    r"Filesystem magic number:  0x[0-9A-F]{4}\n"
    r"Filesystem revision #:    [^\n]*\n"
    r"Filesystem features:      (?P<features>[^\n]*)\n"
    r"(?:Filesystem flags:        [^\n]*\n)?"
    r"Default mount options:    (?P<default_mount_options>[^\n]*)\n"
    r"(?:Mount options:            (?P<mount_option_string>[\s\S]{0,64}?)\n)?"
    r"Filesystem state:         (?P<state>[^\n]*)\n"
    r"Errors behavior:          (?P<errors>[^\n]*)\n"
    r"Filesystem OS type:       [^\n]*\n",
    re.MULTILINE,
)
_ERRORS = {
    "Continue": "continue",
    "Remount read-only": "remount-ro",
    "Panic": "panic",
    # dumpe2fs supposes; ext4_fill_super() takes every other value for remount-ro.
    "Unknown (continue)": "remount-ro",
}
_SIZE = re.compile(r"([0-9]{1,12})([kMG])")
_UNITS = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_superblock(text: str) -> Superblock:
    """Parse the header that dumpe2fs 1.41 to 1.47 print; ValueError for any other text.

    Lines that dumpe2fs leaves out mean what ext4 takes their absence for: no flex_bg is a group
    of one, no cluster size is one block, inodes of revision 0 have 128 bytes.
    The journal's size is as dumpe2fs rounds it down (to MiB from 8 MiB on), and None without a
    journal or with one on another device. A label "<none>" cannot be told from none.
    """
    match = _SEQUENCE.search(text)
    if match is None:
        raise ValueError("not the superblock as dumpe2fs prints it")
    first, last = _fields(text[match.end() :])
    block_bytes = _positive(first, "Block size")
    return Superblock(
        default_mount_options=_words(match["default_mount_options"]),
        mount_option_string=match["mount_option_string"] or "",
        features=frozenset(_words(match["features"])),
        errors=_errors(match["errors"]),
        stride_blocks=_number(first, "RAID stride", 0),
        stripe_width_blocks=_number(first, "RAID stripe width", 0),
        size_blocks=_number(first, "Block count"),
        uuid=_string(match["uuid"]),
        label=_string(match["label"]),
        block_bytes=block_bytes,
        first_block=_number(first, "First block"),
        blocks_per_group=_positive(first, "Blocks per group"),
        inodes_per_group=_number(first, "Inodes per group"),
        inode_bytes=_number(first, "Inode size", 128),
        inode_count=_number(first, "Inode count"),
        flex_bg_groups=_number(first, "Flex block group size", 1),
        cluster_blocks=_number(first, "Cluster size", block_bytes) // block_bytes,
        journal_bytes=_journal_bytes(last),
        state=match["state"].strip(),
        last_mounted_on=_string(match["last_mounted_on"]),
    )


def _fields(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the first and the last value of each key in the lines after the strings.

    The names of functions where errors happened come late, from the superblock: the numbers
    before them are each key's first value, the journal's after them each key's last.
    """
    pairs = [line.split(":", 1) for line in text.split("\n") if ":" in line]
    first = {key: value.strip() for key, value in reversed(pairs)}
    last = {key: value.strip() for key, value in pairs}
    return first, last


def _number(fields: Mapping[str, str], key: str, default: int | None = None) -> int:
    """Return the number of a key, or the default where the line is left out."""
    if key in fields:
        return parse_integer(fields[key])
    if default is None:
        raise ValueError(f"the superblock has no {key!r}")
    return default


def _positive(fields: Mapping[str, str], key: str) -> int:
    """Return a number by which others are divided."""
    number = _number(fields, key)
    if number <= 0:
        raise ValueError(f"{key!r} is {number}")
    return number


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a line, none for "(none)"."""
    return () if text.strip() == "(none)" else tuple(text.split())


def _string(text: str) -> str | None:
    """Return a string of the superblock, None where dumpe2fs says that it is empty."""
    return None if text in {"", "<none>", "<not available>"} else text


def _errors(text: str) -> str:
    """Return the errors behaviour as the mount option spells it."""
    if text.strip() not in _ERRORS:
        raise ValueError(f"{text[:40]!r} is no errors behaviour")
    return _ERRORS[text.strip()]


def _journal_bytes(fields: Mapping[str, str]) -> int | None:
    """Return the journal's size; "Total journal size" since 1.46, "Journal size" before."""
    text = fields.get("Total journal size", fields.get("Journal size"))
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no journal size")
    return int(match[1]) * _UNITS[match[2]]
