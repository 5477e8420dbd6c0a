from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ext4audit.parsers.image_superblock import crc32c, parse_image_superblock
from real_mke2fs import needs_e2fsprogs
from scratch import run

pytestmark = needs_e2fsprogs


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the superblock of a real filesystem with metadata_csum."""
    image = tmp_path_factory.mktemp("image") / "image"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "metadata_csum", image, "16M")
    return image.read_bytes()[1024:2048]


def changed(data: bytes, offset: int, form: str, value: int, *, sealed: bool = True) -> bytes:
    """Change a field; `sealed` makes the checksum fit again."""
    copy = bytearray(data)
    struct.pack_into("<" + form, copy, offset, value)
    if sealed:
        struct.pack_into("<I", copy, 0x3FC, crc32c(bytes(copy[:0x3FC])))
    return bytes(copy)


def test_the_checksum_is_the_one_that_dumpe2fs_knows_as_crc32c() -> None:
    """The check value of CRC-32C is e3069283; ext4 leaves out its final inversion."""
    assert crc32c(b"123456789") == 0xE3069283 ^ 0xFFFFFFFF


def test_a_real_superblock_is_taken(real: bytes) -> None:
    """Its checksum fits, and its counts fit together."""
    found = parse_image_superblock(real)
    assert (found.size_blocks, found.block_bytes, found.groups) == (4096, 4096, 1)


@pytest.mark.parametrize(
    "options",
    [
        ["-t", "ext2"],
        ["-t", "ext3", "-b", "1024"],
        ["-t", "ext4", "-O", "^metadata_csum,uninit_bg"],
        ["-t", "ext4", "-O", "bigalloc", "-C", "65536"],
        ["-t", "ext4", "-O", "meta_bg,^resize_inode", "-b", "1024"],
        ["-t", "ext4", "-O", "^64bit", "-g", "8192", "-N", "3000"],
        ["-t", "ext4", "-r", "0", "-O", "none"],
    ],
    ids=" ".join,
)
def test_what_mke2fs_makes_is_plausible(tmp_path: Path, options: list[str]) -> None:
    """Old revisions, clusters and groups of any size are filesystems."""
    image = tmp_path / "image"
    run("mke2fs", "-q", "-F", *options, image, "64M")
    with image.open("rb") as file:
        found = parse_image_superblock(file.read(2048)[1024:])
    assert found.size_blocks * (found.block_bytes or 0) == 64 << 20


@pytest.mark.parametrize(
    ("offset", "form", "value", "reason"),
    [
        (0x38, "H", 0xEF54, "the magic number is 0xef54"),
        (0x4, "I", 0, "claims 0 blocks"),
        (0x14, "I", 4096, "claims 4096 blocks"),
        (0x20, "I", 32769, "claims 32769 blocks in a group"),
        (0x28, "I", 0, "claims 4096 inodes"),
        (0x0, "I", 4095, "claims 4095 inodes"),
        (0x60, "I", 0x8 | 0x80, "an external journal"),
    ],
)
def test_what_no_kernel_would_mount_is_refused(
    real: bytes, offset: int, form: str, value: int, reason: str
) -> None:
    """Each of these has a checksum that fits."""
    with pytest.raises(ValueError, match=reason):
        parse_image_superblock(changed(real, offset, form, value))


def test_a_wrong_checksum_is_damage(real: bytes) -> None:
    """One changed bit of the label is enough."""
    with pytest.raises(ValueError, match="checksum of its superblock is wrong"):
        parse_image_superblock(changed(real, 0x78, "B", 1, sealed=False))


def test_without_metadata_csum_there_is_no_checksum_to_be_wrong(real: bytes) -> None:
    """The field then holds zeros or anything."""
    without = changed(real, 0x64, "I", 0x1, sealed=False)
    assert parse_image_superblock(changed(without, 0x3FC, "I", 1, sealed=False)).block_bytes == 4096
