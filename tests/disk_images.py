"""Disk images for tests: partition tables byte by byte, with real filesystems in them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

SECTOR = 512
LINUX = 0x83
LINUX_GUID = bytes.fromhex("af3dc60f838472478e793d69d8477de4")


def boot_record(*entries: tuple[int, int, int], status: int = 0) -> bytes:
    """Return a boot record with entries of type, start and size in sectors."""
    table = b"".join(
        struct.pack("<B3xB3xII", status, kind, start, size) for kind, start, size in entries
    )
    return bytes(446) + table.ljust(64, b"\0") + b"\x55\xaa"


def gpt_header(
    *, entries_at: int = 2, count: int = 128, entry_bytes: int = 128, **damage: int
) -> bytes:
    """Return the sector of a GPT header; `damage` is what is wrong: `crc` or `header_bytes`."""
    size = damage.get("header_bytes", 92)
    header = bytearray(SECTOR)
    header[:16] = b"EFI PART" + struct.pack("<II", 0x10000, size)
    struct.pack_into("<QQQQ", header, 24, 1, 9999, 34, 9966)
    struct.pack_into("<QIII", header, 72, entries_at, count, entry_bytes, 0)
    crc = zlib.crc32(header[: min(size, SECTOR)]) ^ damage.get("crc", 0)
    struct.pack_into("<I", header, 16, crc)
    return bytes(header)


def gpt_entry(first: int, last: int, *, guid: bytes = LINUX_GUID, entry_bytes: int = 128) -> bytes:
    """Return the entry of a partition from its first to its last block."""
    return (guid + guid[::-1] + struct.pack("<QQ", first, last)).ljust(entry_bytes, b"\0")


def write_at(image: Path, pieces: Mapping[int, bytes] | Iterable[tuple[int, bytes]]) -> None:
    """Write bytes at offsets of a file, which is made if it is not there."""
    image.touch()
    with image.open("r+b") as file:
        for offset, data in dict(pieces).items():
            file.seek(offset)
            file.write(data)


def grow(image: Path, size_bytes: int) -> None:
    """Make a sparse file of that size."""
    image.touch()
    with image.open("r+b") as file:
        file.truncate(size_bytes)


def with_gpt(image: Path, partitions: Mapping[int, tuple[int, int]]) -> None:
    """Write a GPT with these partitions (number: first and last sector), as Linux accepts it."""
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
