"""`dumpe2fs` without options, as archives hold it: the superblock, then every block group."""

from __future__ import annotations

import re
from array import array

from ext4audit.facts.groups import GroupTable
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.dumpe2fs_header import header_end, parse_superblock

# Inode bitmaps stand on the line of the block bitmap until 1.42, on their own since 1.43. Lines
# on superblocks and checksums come between, and lines that are not of a group's head do not.
_GROUP = re.compile(
    r"^Group ([0-9]{1,10}): \(Blocks [^\n]*\n"
    r"(?:  (?!Block bitmap)[^\n]*\n){0,4}"
    r"  Block bitmap at ([0-9]{1,19})[^\n,]*(?:, csum [^\n,]*)?(?:\n |,) "
    r"Inode bitmap at ([0-9]{1,19})[^\n]*\n"
    r"  Inode table at ([0-9]{1,19})",
    re.MULTILINE,
)


def parse_captured_superblock(text: str) -> Superblock:
    """Parse the superblock's part; ValueError as `parse_superblock` raises it."""
    group = _GROUP.search(text, header_end(text))
    return parse_superblock(text[: group.start()] if group else text)


def parse_captured_groups(text: str) -> GroupTable:
    """Parse the groups' part; ValueError for another text, a gap in the groups, or none.

    The strings that dumpe2fs prints raw are left out, and the name of a function where an error
    happened is too short to forge a group.
    """
    columns = (array("Q"), array("Q"), array("Q"))
    for expected, match in enumerate(_GROUP.finditer(text, header_end(text))):
        if int(match[1]) != expected:
            raise ValueError(f"block group {match[1]} stands where {expected} belongs")
        for column, block in zip(columns, match.groups()[1:], strict=True):
            column.append(int(block))
    if not columns[0]:
        raise ValueError("no block group")
    return GroupTable(*columns)
