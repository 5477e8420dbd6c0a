"""What lies at the start of a block group before its own bitmaps and inode table.

That is a copy of the superblock with all group descriptors in some groups, and with meta_bg one
descriptor block in some others. Sources: Documentation/filesystems/ext4/blockgroup.rst and
super.rst (Linux 6.1), ext4(5).
"""

from __future__ import annotations

from ext4audit.facts.superblock import Superblock
from ext4audit.layout.descriptors import descriptor_bytes, descriptors_per_block, has_superblock

BOOT_BYTES = 1024
"""The superblock is at byte 1024, after what a boot loader may use."""


def reserved_blocks(superblock: Superblock, group: int) -> int:
    """Return how many blocks at the start of a group its own metadata must leave free.

    Only for filesystems without descriptors in both places (meta_bg set later, by a resize).
    """
    copy = has_superblock(superblock, group)
    if "meta_bg" in superblock.features:
        return copy + _holds_descriptors(superblock, group) + _boot_block(superblock, group)
    if not copy:
        return 0
    return (
        _boot_block(superblock, group)
        + 1
        + descriptor_table_blocks(superblock)
        + (superblock.reserved_gdt_blocks or 0)
    )


def descriptor_table_blocks(superblock: Superblock) -> int:
    """Return how many blocks the descriptors of all groups fill."""
    groups, block_bytes = superblock.groups or 0, superblock.block_bytes or 1
    return -(-groups * descriptor_bytes(superblock) // block_bytes)


def _boot_block(superblock: Superblock, group: int) -> int:
    """Return 1 where block 0 of 1 KiB stays free although it is the first: with bigalloc."""
    return int(group == 0 and superblock.first_block == 0 and superblock.block_bytes == BOOT_BYTES)


def _holds_descriptors(superblock: Superblock, group: int) -> bool:
    """Whether meta_bg puts a descriptor block here: first, second and last of its groups."""
    described = descriptors_per_block(superblock)
    return group % described in {0, 1, described - 1}
