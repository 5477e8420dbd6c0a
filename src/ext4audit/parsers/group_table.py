"""The group table: as `dumpe2fs -g` prints it, and as raw group descriptors."""

from __future__ import annotations

import re
import sys
from array import array

from ext4audit.facts.superblock import GroupTable

_HEADER = "group:block:super:gdt:bbitmap:ibitmap:itable\n"
# The inode table is a block, or a range of blocks as dumpe2fs(8) says.
_LINE = re.compile(
    r"([0-9]{1,10}):[0-9]*:[-0-9]*:[-0-9]*:([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,19})(?:-[0-9]+)?"
    r"(?:\n|\Z)"
)
_WORD_BYTES = 4
_SMALLEST_BYTES = 32
# From this size on a descriptor has the upper halves of the block numbers.
_LARGE_BYTES = 64
# Words of bg_block_bitmap, bg_inode_bitmap, bg_inode_table: the upper half is 8 words later.
_FIRST_WORDS = (0, 1, 2)
_UPPER_WORDS = 8
# bg_flags; INODE_ZEROED is in its lower byte.
_FLAGS_BYTE = 0x12
_INODE_ZEROED = 0x4
_IS_ZEROED = bytes(bool(flags & _INODE_ZEROED) for flags in range(256))


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


def parse_group_descriptors(data: bytes, descriptor_bytes: int) -> GroupTable:
    """Return the block numbers in descriptors that follow each other.

    ValueError for a size that no descriptor has, or data that end within one. Checksums are not
    verified: a mounted filesystem sets counts and checksum at different moments.
    """
    if descriptor_bytes < _SMALLEST_BYTES or descriptor_bytes % _WORD_BYTES:
        raise ValueError(f"no group descriptor has {descriptor_bytes} bytes")
    if len(data) % descriptor_bytes:
        raise ValueError(f"{len(data)} bytes do not end with a descriptor")
    return GroupTable(*(_column(data, word, descriptor_bytes) for word in _FIRST_WORDS))


def count_unzeroed(data: bytes, descriptor_bytes: int) -> int:
    """Return how many of these descriptors lack INODE_ZEROED: lazy initialization is pending.

    The flag means nothing without checksums of descriptors (uninit_bg, metadata_csum). ValueError
    as in `parse_group_descriptors`.
    """
    if descriptor_bytes < _SMALLEST_BYTES or len(data) % descriptor_bytes:
        raise ValueError(f"{len(data)} bytes are not descriptors of {descriptor_bytes}")
    return data[_FLAGS_BYTE::descriptor_bytes].translate(_IS_ZEROED).count(0)


def _column(data: bytes, word: int, descriptor_bytes: int) -> array[int]:
    """Return one block number of each descriptor: strided copies, no Python object a group."""
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
