r"""The output of dumpe2fs: superblock, groups, the journal's error; also raw group descriptors.

Three lines of the header hold strings that dumpe2fs prints raw, newlines included (observed with
1.47.0): the volume name (16 bytes), the last mount point (64 bytes) and the mount options string
(64 bytes). A mount point called "/x\nDefault mount options:    nobarrier" prints a line that looks
like the real one and precedes it. So keys are not searched for in that part: the text is matched
from its start against the fixed sequence of lines, and each string ends at a sequence of lines that
is longer than the string can be. The function names of recorded errors are raw strings too.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Mapping
from typing import TypeAlias

from ext4audit.facts.superblock import GroupTable, RecordedError, Superblock, spelt_out
from ext4audit.parsers import parse_count, parse_ctime, parse_integer


def _error_pattern(which: str) -> str:
    """Return the pattern of one recorded error; dumpe2fs prints values at column 26.

    The function's name is 32 raw bytes. The longest match is the right one: a name that contains a
    copy of the next line ends before the real line, and only numbers follow.
    """
    at, function, line, inode, block = (
        f"{which} error {word}:".ljust(26)
        for word in ("time", "function", "line #", "inode #", "block #")
    )
    return (
        rf"(?m)^{at}(?P<at>[^\n]*)\n{function}(?P<function>[\s\S]{{0,32}})\n"
        rf"{line}(?P<line>[0-9]{{1,10}})\n"
        rf"(?:{inode}(?P<inode>[0-9]{{1,10}})\n)?(?:{block}(?P<block>[0-9]{{1,20}})\n)?"
    )


# `sos clean` may have made a name longer than its field; on a single line it cannot forge others.
_SEQUENCE = re.compile(
    r"^Filesystem volume name:   (?P<label>[\s\S]{0,16}?|[^\n]{0,4096})\n"
    r"Last mounted on:          (?:[\s\S]{0,64}?|[^\n]{0,4096})\n"
    r"Filesystem UUID:          (?P<uuid><none>|[0-9a-f-]{36})\n"
    r"Filesystem magic number:  0x[0-9A-F]{4}\n"
    r"Filesystem revision #:    (?P<revision>[0-9]{1,10}) [^\n]*\n"
    r"Filesystem features:      (?P<features>[^\n]*)\n"
    r"(?:Filesystem flags:        [^\n]*\n)?"
    r"Default mount options:    (?P<default_mount_options>[^\n]*)\n"
    r"(?:Mount options:            (?P<mount_option_string>[\s\S]{0,64}?)\n)?"
    r"Filesystem state:         (?P<state>[^\n]*)\n"
    r"Errors behavior:          (?P<errors>[^\n]*)\n"
    r"Filesystem OS type:       [^\n]*\n",
    re.MULTILINE,
)
# The inode bitmap is on the line of the block bitmap until 1.42, on a separate line since 1.43.
# Only lines about superblocks and checksums may come in between.
_GROUP = (
    r"(?m)^Group ([0-9]{1,10}): \(Blocks [^\n]*\n"
    r"(?:  (?!Block bitmap)[^\n]*\n){0,4}"
    r"  Block bitmap at ([0-9]{1,19})[^\n,]*(?:, csum [^\n,]*)?(?:\n |,) "
    r"Inode bitmap at ([0-9]{1,19})[^\n]*\n"
    r"  Inode table at ([0-9]{1,19})"
)
_ERRORS = {
    "Continue": "continue",
    "Remount read-only": "remount-ro",
    "Panic": "panic",
    # dumpe2fs assumes continue; ext4_fill_super() treats every other value as remount-ro.
    "Unknown (continue)": "remount-ro",
}
_DAMAGE = (
    "Bad magic number in super-block",
    "Superblock checksum does not match superblock",
    "The ext2 superblock is corrupt",
)
"""Messages of libext2fs about a superblock; an archive may have stdout and stderr in one file."""
_JOURNAL_MESSAGE = "journal super"
"""As in "… while reading journal super block" (a device that is cut off) and "Journal superblock
magic number invalid!" (dumpe2fs 1.47.0, by test)."""
_SIZE = re.compile(r"([0-9]{1,12})([kMG])")
_UNITS = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_Fields: TypeAlias = Mapping[str, str]
_Recorded: TypeAlias = RecordedError | None


def parse_superblock(text: str) -> Superblock:
    """Parse the header that dumpe2fs 1.41 to 1.47 prints; raise ValueError for any other text.

    Missing lines have the meaning that ext4 gives their absence: without flex_bg, a flex group
    has one group; without bigalloc, a cluster has one block; inodes of revision 0 have 128 bytes.
    The journal's size is rounded down by dumpe2fs (to MiB from 8 MiB on), and None if there is no
    journal or an external one. The label "<none>" cannot be distinguished from an empty label.
    """
    match = _matched(text)
    # Keys are not looked up in the recorded errors, whose function names are raw strings.
    head, (first_error, last_error), tail = _split_at_errors(text[match.end() :])
    first = dict(reversed(_pairs(head)))  # the first of several lines with a key is used
    block_bytes = _positive(first, "Block size")
    return Superblock(
        default_mount_options=_names(match["default_mount_options"]),
        mount_option_string=match["mount_option_string"] or "",
        features=frozenset(_names(match["features"])),
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
        inode_bytes=_number(first, "Inode size", 128 if int(match["revision"]) == 0 else None),
        inode_count=_number(first, "Inode count"),
        flex_bg_groups=_number(first, "Flex block group size", 1),
        cluster_blocks=_number(first, "Cluster size", block_bytes) // block_bytes,
        journal_bytes=_journal_bytes(dict(_pairs(tail))),
        state=match["state"].strip(),
        descriptor_bytes=_number(first, "Group descriptor size", 32),
        reserved_gdt_blocks=_number(first, "Reserved GDT blocks", 0),
        first_meta_bg=_number(first, "First meta block group", 0),
        backup_bgs=tuple(map(int, first.get("Backup block groups", "").split())),
        reserved_blocks=_number_or_none(first, "Reserved block count"),
        free_blocks=_number_or_none(first, "Free blocks"),
        free_inodes=_number_or_none(first, "Free inodes"),
        revision=int(match["revision"]),
        max_mount_count=_number_or_none(first, "Maximum mount count"),
        check_interval_seconds=_number_or_none(first, "Check interval"),
        last_mounted_at=_time(first, "Last mount time"),
        last_checked_at=_time(first, "Last checked"),
        journal_inode=_number_or_none(first, "Journal inode"),
        journal_device=_hexadecimal(first, "Journal device"),
        journal_uuid=first.get("Journal UUID"),
        error_count=_number(first, "FS Error count", 0),
        first_error=first_error,
        last_error=last_error,
        reserved_uid=_number_or_none(first, "Reserved blocks uid"),
        reserved_gid=_number_or_none(first, "Reserved blocks gid"),
    )


def parse_captured_superblock(text: str) -> Superblock:
    """Parse the superblock in full dumpe2fs output; raise ValueError as `parse_superblock` does."""
    group = re.compile(_GROUP).search(text, _header_end(text))
    return parse_superblock(text[: group.start()] if group else text)


def parse_captured_groups(text: str) -> GroupTable:
    """Parse the groups in full dumpe2fs output; raise ValueError for other text or missing groups.

    The raw strings of the header are skipped, and the function name of a recorded error is too
    short to forge a group.
    """
    columns = (array("Q"), array("Q"), array("Q"))
    for expected, match in enumerate(re.compile(_GROUP).finditer(text, _header_end(text))):
        if int(match[1]) != expected:
            raise ValueError(f"block group {match[1]} stands where {expected} belongs")
        for column, block in zip(columns, match.groups()[1:], strict=True):
            column.append(int(block))
    if not columns[0]:
        raise ValueError("no block group")
    return GroupTable(*columns)


def parse_journal_errno(text: str) -> int:
    """Return the journal's error number from the output of `dumpe2fs -h`; 0 without the line.

    Raises ValueError if the journal is not described because dumpe2fs could not read it.
    """
    _, _, tail = _split_at_errors(text[_header_end(text) :])
    fields = dict(_pairs(tail))
    if "Journal sequence" not in fields:
        raise ValueError("dumpe2fs does not describe the journal")
    return parse_integer(fields.get("Journal errno", "0"))


def parse_damage(text: str) -> str:
    """Return the message about a damaged superblock that dumpe2fs adds to its header, else "".

    Raises ValueError for a text without the header. The raw strings of the header are skipped.
    """
    match = _matched(text)
    head, _, tail = _split_at_errors(text[match.end() :])
    return next(filter(None, map(damage_in_message, (text[: match.start()], head, tail))), "")


def damage_in_message(text: str) -> str:
    """Return libext2fs's first message about a damaged superblock, empty if there is none."""
    return min((message for message in _DAMAGE if message in text), key=text.find, default="")


def stopped_at_journal(message: str) -> bool:
    """Return whether dumpe2fs failed at the journal, after it had read a valid superblock."""
    return _JOURNAL_MESSAGE in message.lower()


def _header_end(text: str) -> int:
    """Return the end of the lines that may hold raw strings; raise ValueError for other text."""
    return _matched(text).end()


def _matched(text: str) -> re.Match[str]:
    match = _SEQUENCE.search(text)
    if match is None or "\0" in text:  # NUL: a zeroed block in the captured file
        raise ValueError("not the superblock as dumpe2fs prints it")
    return match


def _split_at_errors(text: str) -> tuple[str, tuple[_Recorded, _Recorded], str]:
    """Return the text before the recorded errors, the first and last error, and the rest."""
    first = _error_match("First", text, 0)
    last = _error_match("Last", text, first.end() if first else 0)
    found = [match for match in (first, last) if match]
    if not found:
        return text, (None, None), text
    return text[: found[0].start()], (_error(first), _error(last)), text[found[-1].end() :]


def _error_match(which: str, text: str, position: int) -> re.Match[str] | None:
    """Search for a recorded error; few filesystems have one, and the pattern takes 0.3 ms."""
    if f"{which} error time:" not in text:
        return None
    return re.compile(_error_pattern(which)).search(text, position)


def _error(match: re.Match[str] | None) -> RecordedError | None:
    if match is None:
        return None
    return RecordedError(
        parse_ctime(match["at"]),
        match["function"],
        int(match["line"]),
        int(match["inode"] or 0),
        int(match["block"] or 0),
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = (line.partition(":") for line in text.split("\n"))
    return [(key, value.strip()) for key, colon, value in parts if colon]


def _number(fields: _Fields, key: str, default: int | None = None) -> int:
    """Return the number of a key, or the default if it is missing; raise ValueError without one."""
    if key in fields:
        return parse_count(fields[key])
    if default is None:
        raise ValueError(f"the superblock has no {key!r}")
    return default


def _positive(fields: _Fields, key: str) -> int:
    """Return the number of a key; raise ValueError unless it is positive."""
    found = _number(fields, key)
    if found <= 0:
        raise ValueError(f"{key!r} is {found}")
    return found


def _number_or_none(fields: _Fields, key: str) -> int | None:
    """Return the first number of a value such as "86400 (1 day)", None without the line."""
    return parse_integer(fields[key].partition(" ")[0]) if key in fields else None


def _hexadecimal(fields: _Fields, key: str) -> int | None:
    """Return a number such as "0x0801", None without the line."""
    return int(fields[key], 16) if key in fields else None


def _names(text: str) -> tuple[str, ...]:
    """Return the names on a line, empty for "(none)"."""
    return () if text.strip() == "(none)" else tuple(map(spelt_out, text.split()))


def _string(text: str) -> str | None:
    """Return a string of the superblock, None if dumpe2fs prints a placeholder for empty."""
    return None if text in {"", "<none>", "<not available>"} else text


def _time(fields: _Fields, key: str) -> int | None:
    """Return a time in seconds since 1970, None if it is zero, missing or unreadable."""
    return parse_ctime(fields.get(key, "")) or None


def _errors(text: str) -> str:
    """Return the errors behaviour as in the mount option; raise ValueError if it is unknown."""
    if text.strip() not in _ERRORS:
        raise ValueError(f"{text[:40]!r} is not an errors behaviour")
    return _ERRORS[text.strip()]


def _journal_bytes(fields: _Fields) -> int | None:
    """Return the journal's size in bytes ("Total journal size" since 1.46, else "Journal size")."""
    text = fields.get("Total journal size", fields.get("Journal size"))
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a journal size")
    return int(match[1]) * _UNITS[match[2]]


_HEADER = "group:block:super:gdt:bbitmap:ibitmap:itable\n"
# The inode table is a block, or a range of blocks as documented in dumpe2fs(8).
_LINE = (
    r"([0-9]{1,10}):[0-9]*:[-0-9]*:[-0-9]*:([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,19})(?:-[0-9]+)?"
    r"(?:\n|\Z)"
)
_WORD_BYTES = 4
_SMALLEST_BYTES = 32
# Descriptors of at least this size have the upper halves of the block numbers.
_LARGE_BYTES = 64
# Words of bg_block_bitmap, bg_inode_bitmap, bg_inode_table; the upper halves are 8 words later.
_FIRST_WORDS = (0, 1, 2)
_UPPER_WORDS = 8
# bg_flags; INODE_ZEROED is in its lower byte.
_FLAGS_BYTE = 0x12
_INODE_ZEROED = 0x4
_IS_ZEROED = bytes(bool(flags & _INODE_ZEROED) for flags in range(256))


def parse_group_table(text: str) -> GroupTable:
    """Parse the output of `dumpe2fs -g`; raise ValueError for other text or missing groups.

    A filesystem of 64 TiB has 524,288 lines, so they are matched in place, not split into a list.
    """
    header = text.find(_HEADER)
    if header < 0:
        raise ValueError("no header of dumpe2fs -g")
    position, columns = header + len(_HEADER), (array("Q"), array("Q"), array("Q"))
    line_pattern = re.compile(_LINE)
    while position < len(text) or not columns[0]:
        match = line_pattern.match(text, position)
        if match is None or int(match[1]) != len(columns[0]):
            line = text[position : position + 60]
            raise ValueError(f"{line!r} is not block group {len(columns[0])}")
        for column, block in zip(columns, match.groups()[1:], strict=True):
            column.append(int(block))
        position = match.end()
    return GroupTable(*columns)


def parse_group_descriptors(data: bytes, descriptor_bytes: int) -> GroupTable:
    """Return the block numbers in contiguous descriptors.

    Raises ValueError for an invalid descriptor size, or data that end within a descriptor.
    Checksums are not verified: a mounted filesystem updates counts and checksum separately.
    """
    if descriptor_bytes < _SMALLEST_BYTES or descriptor_bytes % _WORD_BYTES:
        raise ValueError(f"no group descriptor has {descriptor_bytes} bytes")
    if len(data) % descriptor_bytes:
        raise ValueError(f"{len(data)} bytes do not end with a descriptor")
    return GroupTable(*(_column(data, word, descriptor_bytes) for word in _FIRST_WORDS))


def count_unzeroed(data: bytes, descriptor_bytes: int) -> int:
    """Return how many descriptors lack INODE_ZEROED, that is, await lazy initialization.

    The flag means nothing without descriptor checksums (uninit_bg, metadata_csum). Raises
    ValueError if the data are not whole descriptors.
    """
    if descriptor_bytes < _SMALLEST_BYTES or len(data) % descriptor_bytes:
        raise ValueError(f"{len(data)} bytes are not descriptors of {descriptor_bytes}")
    return data[_FLAGS_BYTE::descriptor_bytes].translate(_IS_ZEROED).count(0)


def _column(data: bytes, word: int, descriptor_bytes: int) -> array[int]:
    """Return one block number per descriptor; strided copies avoid a Python object per group."""
    words = memoryview(data).cast("I")
    step = descriptor_bytes // _WORD_BYTES
    count = len(words) // step
    halves = array("I", bytes(2 * count * _WORD_BYTES))
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    view = memoryview(halves)
    view[low::2] = words[word::step]
    if descriptor_bytes >= _LARGE_BYTES:
        view[high::2] = words[word + _UPPER_WORDS :: step]
    if sys.byteorder == "big":
        halves.byteswap()
    return array("Q", halves.tobytes())
