"""`dumpe2fs -g`: where each block group's metadata lies (e2fsprogs 1.43 and later)."""

from __future__ import annotations

import re
from array import array

from ext4audit.facts.groups import GroupTable

_HEADER = "group:block:super:gdt:bbitmap:ibitmap:itable\n"
# The inode table is a block, or a range of blocks as dumpe2fs(8) says.
_LINE = re.compile(
    r"([0-9]{1,10}):[0-9]*:[-0-9]*:[-0-9]*:([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,19})(?:-[0-9]+)?"
    r"(?:\n|\Z)"
)


def parse_group_table(text: str) -> GroupTable:
    """Parse the group table; ValueError for another text, a gap in the groups, or none.

    A filesystem of 64 TiB has 524,288 lines: they are matched in place and never made a list.
    """
    header = text.find(_HEADER)
    if header < 0:
        raise ValueError("no header of dumpe2fs -g")
    position, columns = header + len(_HEADER), (array("Q"), array("Q"), array("Q"))
    while position < len(text) or not columns[0]:
        match = _LINE.match(text, position)
        if match is None or int(match[1]) != len(columns[0]):
            line = text[position : position + 60]
            raise ValueError(f"{line!r} is not block group {len(columns[0])}")
        for column, block in zip(columns, match.groups()[1:], strict=True):
            column.append(int(block))
        position = match.end()
    return GroupTable(*columns)
