"""The header of a file that `e2image` writes without -r and -Q.

The fields are those of `struct ext2_image_hdr` (e2fsprogs 1.47, lib/ext2fs/e2image.h), which
are little-endian since e2fsprogs 1.43.
"""

from __future__ import annotations

from ext4audit.records import dataclass

HEADER_BYTES = 304
_MAGIC = bytes.fromhex("10b72b7f")
_DESCRIPTION = b"Ext2 Image 1."
_LARGEST_BLOCK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class E2imageHeader:
    """Where the copy of the superblock lies in the file, and that of the group descriptors.

    The superblock takes a whole block. The descriptors of all groups follow it without a gap,
    also those that meta_bg scatters on the filesystem.
    """

    superblock_at_bytes: int
    descriptors_at_bytes: int


def is_e2image(data: bytes) -> bool:
    """Whether a file that begins with `data` says that e2image wrote it."""
    return data.startswith(_MAGIC) and data[4:].startswith(_DESCRIPTION)


def parse_e2image_header(data: bytes) -> E2imageHeader:
    """Parse the first 304 bytes; ValueError for a header that leads nowhere."""
    if len(data) != HEADER_BYTES or not is_e2image(data):
        raise ValueError("no header of e2image")
    block_bytes = int.from_bytes(data[0xCC:0xD0], "little")
    superblock_at = int.from_bytes(data[0x11C:0x120], "little")
    if not 1 << 10 <= block_bytes <= _LARGEST_BLOCK_BYTES or superblock_at < HEADER_BYTES:
        raise ValueError("an e2image file without a superblock")
    return E2imageHeader(superblock_at, superblock_at + block_bytes)
