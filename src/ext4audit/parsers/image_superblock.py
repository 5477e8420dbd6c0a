"""A superblock that is taken for one only if all of it fits together.

A file that merely holds the magic number is not a filesystem. An image is not mounted, so that
its checksum must be right, unlike that of a filesystem which the kernel is writing to.
"""

from __future__ import annotations

from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.raw_superblock import parse_raw_superblock

_CHECKSUM_AT = 0x3FC
_CRC32C = 0x82F63B78
_BITS = 8


def parse_image_superblock(data: bytes) -> Superblock:
    """Parse the 1024 bytes of a superblock; ValueError for what no kernel would mount.

    The limits are those of ext4_fill_super() (fs/ext4/super.c, Linux 6.12). The checksum is
    crc32c of the bytes before it (ext4_superblock_csum()), there with metadata_csum only.
    """
    superblock = parse_raw_superblock(data)
    if "journal_dev" in superblock.features:
        raise ValueError("it is an external journal, not a filesystem")
    _check_sizes(superblock)
    if "metadata_csum" in superblock.features:
        stated = int.from_bytes(data[_CHECKSUM_AT:], "little")
        if crc32c(data[:_CHECKSUM_AT]) != stated:
            raise ValueError("the checksum of its superblock is wrong")
    return superblock


def crc32c(data: bytes) -> int:
    """Return the crc32c of ext4: it begins with all ones, and is not inverted at the end."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(_BITS):
            value = value >> 1 ^ (_CRC32C if value & 1 else 0)
    return value


def _check_sizes(superblock: Superblock) -> None:
    """Raise ValueError where the counts of blocks, groups and inodes contradict each other."""
    bits = _BITS * (superblock.block_bytes or 0)
    inodes, groups = superblock.inodes_per_group or 0, superblock.groups or 0
    if (superblock.first_block or 0) >= superblock.size_blocks:
        raise ValueError(f"its superblock claims {superblock.size_blocks} blocks")
    if (superblock.blocks_per_group or 0) > bits * (superblock.cluster_blocks or 1):
        raise ValueError(f"its superblock claims {superblock.blocks_per_group} blocks in a group")
    if not 0 < inodes <= bits or inodes * groups != superblock.inode_count:
        raise ValueError(f"its superblock claims {superblock.inode_count} inodes")
