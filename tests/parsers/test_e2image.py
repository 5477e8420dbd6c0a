from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ext4audit.parsers.e2image import E2imageHeader, is_e2image, parse_e2image_header
from real_mke2fs import needs_e2fsprogs
from scratch import run


def header(block_bytes: int = 4096, superblock_at: int = 4096) -> bytes:
    """Return the first bytes of an e2image file."""
    data = bytearray(304)
    data[:20] = bytes.fromhex("10b72b7f") + b"Ext2 Image 1.0\0\0"
    struct.pack_into("<I", data, 0xCC, block_bytes)
    struct.pack_into("<I", data, 0x11C, superblock_at)
    return bytes(data)


def test_the_header_tells_where_the_copies_lie() -> None:
    """The superblock fills a block, and all descriptors follow it."""
    assert parse_e2image_header(header(1024, 1024)) == E2imageHeader(1024, 2048)
    assert parse_e2image_header(header(65536, 65536)) == E2imageHeader(65536, 131072)


@needs_e2fsprogs
@pytest.mark.parametrize(("block_bytes", "expected"), [(1024, (1024, 2048)), (4096, (4096, 8192))])
def test_a_file_of_the_real_e2image_is_read(
    tmp_path: Path, block_bytes: int, expected: tuple[int, int]
) -> None:
    """The offsets are those of the installed e2image, and the magic number lies there."""
    image, copy = tmp_path / "image", tmp_path / "copy"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", str(block_bytes), image, "16M")
    run("e2image", image, copy)
    data = copy.read_bytes()[:10000]
    found = parse_e2image_header(data[:304])
    assert (found.superblock_at_bytes, found.descriptors_at_bytes) == expected
    assert data[expected[0] + 0x38 : expected[0] + 0x3A] == b"\x53\xef"
    with image.open("rb") as file:
        file.seek(2048 if block_bytes == 1024 else 4096)
        assert data[expected[1] : expected[1] + 64] == file.read(64)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no header"),
        (header()[:303], "no header"),
        (b"\0" + header()[1:], "no header"),
        (header(block_bytes=0), "without a superblock"),
        (header(block_bytes=1 << 31), "without a superblock"),
        (header(superblock_at=0), "without a superblock"),
    ],
)
def test_a_header_that_leads_nowhere_is_refused(data: bytes, reason: str) -> None:
    """e2image writes such a header first and the rest later: an interrupted copy has it."""
    with pytest.raises(ValueError, match=reason):
        parse_e2image_header(data)


def test_the_magic_number_alone_is_not_enough() -> None:
    """Four bytes can be anybody's; the words behind them are e2image's."""
    assert is_e2image(header()[:512])
    assert not is_e2image(header()[:4] + bytes(508))
    assert not is_e2image(b"")
