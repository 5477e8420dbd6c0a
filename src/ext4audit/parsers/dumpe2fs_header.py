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

from ext4audit.facts.superblock import Superblock
from ext4audit.parsers import dumpe2fs_lines as lines

_SEQUENCE = re.compile(
    r"^Filesystem volume name:   (?P<label>[\s\S]{0,16}?)\n"
    r"Last mounted on:          (?P<last_mounted_on>[\s\S]{0,64}?)\n"
    r"Filesystem UUID:          (?P<uuid><none>|[0-9a-f-]{36})\n"
    r"Filesystem magic number:  0x[0-9A-F]{4}\n"
    r"Filesystem revision #:    (?P<revision>[0-9]{1,10}) [^\n]*\n"
    r"Filesystem features:      (?P<features>[^\n]*)\n"
    r"(?:Filesystem flags:        (?P<flags>[^\n]*)\n)?"
    r"Default mount options:    (?P<default_mount_options>[^\n]*)\n"
    r"(?:Mount options:            (?P<mount_option_string>[\s\S]{0,64}?)\n)?"
    r"Filesystem state:         (?P<state>[^\n]*)\n"
    r"Errors behavior:          (?P<errors>[^\n]*)\n"
    r"Filesystem OS type:       (?P<creator_os>[^\n]*)\n",
    re.MULTILINE,
)
_ERRORS = {
    "Continue": "continue",
    "Remount read-only": "remount-ro",
    "Panic": "panic",
    # dumpe2fs supposes; ext4_fill_super() takes every other value for remount-ro.
    "Unknown (continue)": "remount-ro",
}


def header_end(text: str) -> int:
    """Return where the lines that may hold raw strings end; ValueError for another text."""
    return _matched(text).end()


def parse_superblock(text: str) -> Superblock:
    """Parse the header that dumpe2fs 1.41 to 1.47 print; ValueError for any other text.

    Lines that dumpe2fs leaves out mean what ext4 takes their absence for: no flex_bg is a group
    of one, no cluster size is one block, inodes of revision 0 have 128 bytes.
    The journal's size is as dumpe2fs rounds it down (to MiB from 8 MiB on), and None without a
    journal or with one on another device. A label "<none>" cannot be told from none.
    """
    match = _matched(text)
    # Functions where errors happened are raw strings too: no key is looked for in their lines.
    head, (first_error, last_error), tail = lines.around_errors(text[match.end() :])
    first = lines.first_values(head)
    block_bytes = lines.positive(first, "Block size")
    return Superblock(
        default_mount_options=lines.words(match["default_mount_options"]),
        mount_option_string=match["mount_option_string"] or "",
        features=frozenset(lines.words(match["features"])),
        errors=_errors(match["errors"]),
        stride_blocks=lines.number(first, "RAID stride", 0),
        stripe_width_blocks=lines.number(first, "RAID stripe width", 0),
        size_blocks=lines.number(first, "Block count"),
        uuid=lines.string(match["uuid"]),
        label=lines.string(match["label"]),
        block_bytes=block_bytes,
        first_block=lines.number(first, "First block"),
        blocks_per_group=lines.positive(first, "Blocks per group"),
        inodes_per_group=lines.number(first, "Inodes per group"),
        inode_bytes=lines.number(first, "Inode size", 128),
        inode_count=lines.number(first, "Inode count"),
        flex_bg_groups=lines.number(first, "Flex block group size", 1),
        cluster_blocks=lines.number(first, "Cluster size", block_bytes) // block_bytes,
        journal_bytes=lines.journal_bytes(lines.last_values(tail)),
        state=match["state"].strip(),
        last_mounted_on=lines.string(match["last_mounted_on"]),
        descriptor_bytes=lines.number(first, "Group descriptor size", 32),
        reserved_gdt_blocks=lines.number(first, "Reserved GDT blocks", 0),
        first_meta_bg=lines.number(first, "First meta block group", 0),
        backup_bgs=tuple(map(int, first.get("Backup block groups", "").split())),
        reserved_blocks=lines.number_or_none(first, "Reserved block count"),
        free_blocks=lines.number_or_none(first, "Free blocks"),
        free_inodes=lines.number_or_none(first, "Free inodes"),
        first_inode=lines.number(first, "First inode", 11),
        revision=int(match["revision"]),
        creator_os=match["creator_os"].strip(),
        flags=lines.words(match["flags"] or ""),
        hash_version=first.get("Default directory hash"),
        mount_count=lines.number_or_none(first, "Mount count"),
        max_mount_count=lines.number_or_none(first, "Maximum mount count"),
        check_interval_seconds=lines.number_or_none(first, "Check interval"),
        created_at=lines.time(first, "Filesystem created"),
        last_mounted_at=lines.time(first, "Last mount time"),
        last_written_at=lines.time(first, "Last write time"),
        last_checked_at=lines.time(first, "Last checked"),
        kbytes_written=lines.kbytes_written(first),
        journal_inode=lines.number_or_none(first, "Journal inode"),
        journal_device=lines.hexadecimal(first, "Journal device"),
        journal_uuid=first.get("Journal UUID"),
        error_count=lines.number(first, "FS Error count", 0),
        first_error=first_error,
        last_error=last_error,
    )


def _matched(text: str) -> re.Match[str]:
    match = _SEQUENCE.search(text)
    if match is None:
        raise ValueError("not the superblock as dumpe2fs prints it")
    return match


def _errors(text: str) -> str:
    """Return the errors behaviour as the mount option spells it."""
    if text.strip() not in _ERRORS:
        raise ValueError(f"{text[:40]!r} is no errors behaviour")
    return _ERRORS[text.strip()]
