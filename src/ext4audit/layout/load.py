"""How much block-group metadata lies on each member device of a stripe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ext4audit.facts.groups import GroupLocation
from ext4audit.facts.layout import MemberLoad, MetadataLayout, StripeGeometry
from ext4audit.facts.superblock import Superblock


def member_of_block(block: int, geometry: StripeGeometry, block_bytes: int) -> int:
    """Return the slot of the member device on which a filesystem block starts.

    Chunk k of a RAID0 of equal members lies on member k mod N (drivers/md/raid0.c,
    drivers/md/dm-stripe.c).
    """
    position_bytes = geometry.offset_bytes + block * block_bytes
    return position_bytes // geometry.chunk_bytes % len(geometry.members)


def measure(
    locations: Sequence[GroupLocation], superblock: Superblock, geometry: StripeGeometry
) -> MetadataLayout:
    """Count the metadata of all block groups per member device.

    Raises ValueError where the superblock lacks a field, or has another number of groups than
    there are locations: a table that was cut off must not be counted as a whole filesystem.
    """
    block_bytes, blocks_per_group = superblock.block_bytes, superblock.blocks_per_group
    if not block_bytes or not blocks_per_group or superblock.groups is None:
        raise ValueError("the superblock's block size and group size are not known")
    if superblock.groups != len(locations):
        raise ValueError(f"{len(locations)} group descriptors of {superblock.groups} are seen")
    return MetadataLayout(
        geometry=geometry,
        block_bytes=block_bytes,
        blocks_per_group=blocks_per_group,
        groups=len(locations),
        flex_bg_groups=superblock.flex_bg_groups or 1,
        size_blocks=superblock.size_blocks,
        cluster_blocks=superblock.cluster_blocks or 1,
        members=_members(locations, geometry, block_bytes),
    )


def _members(
    locations: Sequence[GroupLocation], geometry: StripeGeometry, block_bytes: int
) -> tuple[MemberLoad, ...]:
    block_bitmaps = _count((each.block_bitmap for each in locations), geometry, block_bytes)
    inode_bitmaps = _count((each.inode_bitmap for each in locations), geometry, block_bytes)
    inode_tables = _count((each.inode_table for each in locations), geometry, block_bytes)
    return tuple(
        MemberLoad(name, block_bitmaps[slot], inode_bitmaps[slot], inode_tables[slot])
        for slot, name in enumerate(geometry.members)
    )


def _count(blocks: Iterable[int], geometry: StripeGeometry, block_bytes: int) -> Counter[int]:
    return Counter(member_of_block(block, geometry, block_bytes) for block in blocks)
