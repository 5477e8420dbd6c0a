"""`dumpe2fs -g`: where each block group's metadata lies (e2fsprogs 1.43 and later)."""

from __future__ import annotations

from ext4audit.facts.groups import GroupLocation

_HEADER = "group:block:super:gdt:bbitmap:ibitmap:itable"
_COLUMNS = 7


def parse_group_table(text: str) -> tuple[GroupLocation, ...]:
    """Parse the group table; ValueError for another text, a gap in the groups, or none.

    A filesystem of 64 TiB has 524,288 lines, hence plain splits and int().
    """
    _, header, body = text.partition(_HEADER + "\n")
    if not header:
        raise ValueError("no header of dumpe2fs -g")
    lines = body.rstrip("\n").split("\n")
    return tuple(_location(expected, line) for expected, line in enumerate(lines))


def _location(expected: int, line: str) -> GroupLocation:
    """Parse one line; the inode table is a range of blocks, or one block."""
    columns = line.split(":")
    if len(columns) != _COLUMNS or columns[0] != str(expected):
        raise ValueError(f"{line[:60]!r} is not block group {expected}")
    return GroupLocation(
        expected, int(columns[4]), int(columns[5]), int(columns[6].partition("-")[0])
    )
