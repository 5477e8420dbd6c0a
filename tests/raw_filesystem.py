"""The bytes of a small filesystem that nobody made: a superblock and its descriptors."""

from __future__ import annotations

import struct

from ext4audit.sources.ask import ReadBytes

BLOCKS_PER_GROUP = 32768
DESCRIPTORS_AT = 4096


def superblock_bytes(groups: int, *, meta_bg: bool = False) -> bytes:
    """Return a superblock of so many whole groups of blocks of 4 KiB, with descriptors of 64."""
    data = bytearray(1024)
    incompat = 0x80 | (0x10 if meta_bg else 0)
    for offset, form, value in (
        (0x4, "I", groups * BLOCKS_PER_GROUP),
        (0x18, "I", 2),
        (0x20, "I", BLOCKS_PER_GROUP),
        (0x28, "I", 8192),
        (0x38, "H", 0xEF53),
        (0x4C, "I", 1),
        (0x60, "I", incompat),
        (0x64, "I", 1),
        (0xFE, "H", 64),
    ):
        struct.pack_into("<" + form, data, offset, value)
    return bytes(data)


def descriptor_bytes(first: int, end: int) -> bytes:
    """Return the descriptors of groups whose bitmaps lie 10 and 11, and tables 12, behind them."""
    data = bytearray(64 * (end - first))
    for index, group in enumerate(range(first, end)):
        start = group * BLOCKS_PER_GROUP
        struct.pack_into("<3I", data, 64 * index, start + 10, start + 11, start + 12)
    return bytes(data)


def superblock_at(path: str, reading: int = 0, *, offset: int = 0) -> ReadBytes:
    """Return the ask for the superblock."""
    return ReadBytes(path, offset + 1024, 1024, reading)


def descriptors_at(path: str, groups: int, reading: int = 0, *, offset: int = 0) -> ReadBytes:
    """Return the ask for the descriptors of so many groups that follow the superblock."""
    return ReadBytes(path, offset + DESCRIPTORS_AT, 64 * groups, reading)
