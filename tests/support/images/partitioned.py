"""Raw filesystems and disk images, built in memory or by real tools."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from ext4audit.sources import ReadBytes

BLOCKS_PER_GROUP = 32768
DESCRIPTORS_AT = 4096


def superblock_bytes(groups: int, *, meta_bg: bool = False) -> bytes:
    """Return a superblock with `groups` full groups, 4 KiB blocks and 64-byte descriptors."""
    data = bytearray(1024)
    incompat = 0x80 | (0x10 if meta_bg else 0)
    for offset, form, value in (
        (0x0, "I", min(groups * 8192, 0xFFFFFFFF)),
        (0x4, "I", groups * BLOCKS_PER_GROUP & 0xFFFFFFFF),
        (0x150, "I", groups * BLOCKS_PER_GROUP >> 32),
        (0x18, "I", 2),
        (0x1C, "I", 2),
        (0x20, "I", BLOCKS_PER_GROUP),
        (0x24, "I", BLOCKS_PER_GROUP),
        (0x28, "I", 8192),
        (0x38, "H", 0xEF53),
        (0x4C, "I", 1),
        (0x54, "I", 11),
        (0x58, "H", 256),
        (0x60, "I", incompat),
        (0x64, "I", 1),
        (0xFE, "H", 64),
    ):
        struct.pack_into("<" + form, data, offset, value)
    return bytes(data)


def descriptor_bytes(first: int, end: int) -> bytes:
    """Return descriptors of groups with bitmaps at their blocks 10 and 11, inode tables at 12."""
    data = bytearray(64 * (end - first))
    for index, group in enumerate(range(first, end)):
        start = group * BLOCKS_PER_GROUP
        struct.pack_into("<3I", data, 64 * index, start + 10, start + 11, start + 12)
    return bytes(data)


def superblock_at(path: str, reading: int = 0, *, offset: int = 0) -> ReadBytes:
    """Return the ask for the superblock of a filesystem at an offset."""
    return ReadBytes(path, offset + 1024, 1024, reading)


def descriptors_at(path: str, groups: int, reading: int = 0, *, offset: int = 0) -> ReadBytes:
    """Return the ask for the descriptors of `groups` groups, which follow the superblock."""
    return ReadBytes(path, offset + DESCRIPTORS_AT, 64 * groups, reading)


SECTOR = 512
LINUX = 0x83
LINUX_GUID = bytes.fromhex("af3dc60f838472478e793d69d8477de4")


def boot_record(*entries: tuple[int, int, int], status: int = 0) -> bytes:
    """Return a boot record with entries of type, first sector, and number of sectors."""
    table = b"".join(
        struct.pack("<B3xB3xII", status, kind, start, size) for kind, start, size in entries
    )
    return bytes(446) + table.ljust(64, b"\0") + b"\x55\xaa"


def gpt_header(
    *, entries_at: int = 2, count: int = 128, entry_bytes: int = 128, **damage: int
) -> bytes:
    """Return the sector of a GPT header; `damage` to `crc` or `header_bytes` makes it invalid."""
    size = damage.get("header_bytes", 92)
    header = bytearray(SECTOR)
    header[:16] = b"EFI PART" + struct.pack("<II", 0x10000, size)
    struct.pack_into("<QQQQ", header, 24, 1, 9999, 34, 9966)
    struct.pack_into("<QIII", header, 72, entries_at, count, entry_bytes, 0)
    crc = zlib.crc32(header[: min(size, SECTOR)]) ^ damage.get("crc", 0)
    struct.pack_into("<I", header, 16, crc)
    return bytes(header)


def gpt_entry(first: int, last: int, *, guid: bytes = LINUX_GUID, entry_bytes: int = 128) -> bytes:
    """Return the GPT entry of a partition with its first and last sector."""
    return (guid + guid[::-1] + struct.pack("<QQ", first, last)).ljust(entry_bytes, b"\0")


def write_at(image: Path, pieces: Mapping[int, bytes] | Iterable[tuple[int, bytes]]) -> None:
    """Write bytes at offsets of a file, which is created if it does not exist."""
    image.touch()
    with image.open("r+b") as file:
        for offset, data in dict(pieces).items():
            file.seek(offset)
            file.write(data)


def grow(image: Path, size_bytes: int) -> None:
    """Create a sparse file of this size, or resize it."""
    image.touch()
    with image.open("r+b") as file:
        file.truncate(size_bytes)


def with_gpt(image: Path, partitions: Mapping[int, tuple[int, int]]) -> None:
    """Write a GPT that Linux accepts, with these partitions (number: first and last sector)."""
    entries = bytearray(128 * 128)
    for number, (first, last) in partitions.items():
        entries[128 * (number - 1) : 128 * number] = gpt_entry(first, last)
    sectors = image.stat().st_size // SECTOR
    header = bytearray(gpt_header())
    struct.pack_into("<QQQ", header, 32, sectors - 1, 34, sectors - 34)
    struct.pack_into("<I", header, 88, zlib.crc32(entries))
    struct.pack_into("<I", header, 16, 0)
    struct.pack_into("<I", header, 16, zlib.crc32(header[:92]))
    protective = boot_record((0xEE, 1, sectors - 1))
    write_at(image, {0: protective, SECTOR: bytes(header), 2 * SECTOR: bytes(entries)})
