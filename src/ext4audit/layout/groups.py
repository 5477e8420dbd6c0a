"""Prediction of the locations of bitmaps and inode tables from the superblock alone.

There are three documented rules. The groups of a flex group keep their block bitmaps together,
then their inode bitmaps, then their inode tables, at the start of the flex group. If a copy of the
superblock and the descriptors is there, it comes first. Without flex_bg each group does the same
for itself, and a RAID stride shifts its bitmaps.

Sources: Documentation/filesystems/ext4/blockgroup.rst ("Flexible Block Groups"; Linux 6.1);
mke2fs(8), -E stride; ext4(5).

Checked against e2fsprogs 1.47.0 with random sets of options. Groups that were added by a resize
or made by programs other than mke2fs may differ: prefer the descriptors if they are available.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ext4audit.facts.superblock import GroupTable, Sizes
from ext4audit.layout import reserved_blocks

_UNSIGNED_64 = "Q"
_Places = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Block bitmaps, inode bitmaps and inode tables of some groups."""


def inode_table_blocks(sizes: Sizes) -> int:
    """Return the number of blocks of one group's inode table."""
    return -(-sizes.inodes_per_group * sizes.inode_bytes // sizes.block_bytes)


def predict_table(sizes: Sizes) -> GroupTable:
    """Return the metadata locations that mke2fs chooses for a filesystem of these sizes."""
    table_blocks = inode_table_blocks(sizes)
    columns = tuple(array(_UNSIGNED_64) for _ in range(3))
    for first in range(0, sizes.groups, sizes.flex_bg_groups):
        start = sizes.first_block + first * sizes.blocks_per_group + reserved_blocks(sizes, first)
        if sizes.flex_bg_groups > 1 or not sizes.stride_blocks:
            groups = min(sizes.flex_bg_groups, sizes.groups - first)
            places = _packed(sizes, start, groups, table_blocks)
        else:
            places = _strided(sizes, start, first, table_blocks)
        for column, blocks in zip(columns, places, strict=True):
            column.extend(blocks)
    return GroupTable(*columns)


def is_exact(sizes: Sizes) -> bool:
    """Whether `predict_table` is exact to the block for filesystems made by mke2fs 1.47.

    It is not exact if the inode tables of a flex group reach a later group's copy of the
    superblock (large flex groups, very many inodes): mke2fs then searches for gaps. It also is
    not exact with `-E packed_meta_blocks=1`, which the superblock does not record.
    """
    if "meta_bg" in sizes.features and sizes.first_meta_bg:
        return False
    if sizes.flex_bg_groups == 1:
        return True
    return all(_fits(sizes, first) for first in range(0, sizes.groups, sizes.flex_bg_groups))


def sizes_of_middle(sizes: Sizes, block: int) -> range:
    """Return the numbers of blocks for which mke2fs places the journal around a block.

    It begins in the flex group of the middle of the filesystem, or near it (1.47.0); a resize does
    not move it.
    """
    around = max(sizes.flex_bg_groups, 2) * sizes.blocks_per_group
    return range(max(2 * (block - around), 0), 2 * (block + around))


def _packed(sizes: Sizes, start: int, groups: int, table_blocks: int) -> _Places:
    """Return the locations for groups that are packed together, or for one without flex_bg.

    A last flex group with fewer groups takes less room, except one with a single group.
    """
    room = groups if groups > 1 else sizes.flex_bg_groups
    inode_bitmaps, tables = start + room, start + 2 * room
    return (
        range(start, start + groups),
        range(inode_bitmaps, inode_bitmaps + groups),
        range(tables, tables + groups * table_blocks, table_blocks),
    )


def _strided(sizes: Sizes, start: int, group: int, table_blocks: int) -> _Places:
    """Return the locations for a single group whose bitmaps the RAID stride shifts.

    The shift is the stride times the group number, modulo the space after the inode table. mke2fs
    does not use the last block of a group: a bitmap that would be there is at the start.
    """
    free = start + table_blocks
    end = sizes.first_block + (group + 1) * sizes.blocks_per_group
    last = min(end, sizes.size_blocks) - 1
    bitmap = free + sizes.stride_blocks * group % (last - free + 1)
    if bitmap < last - 1:
        return (bitmap,), (bitmap + 1,), (start,)
    if bitmap < last:
        return (bitmap,), (start,), (start + 1,)
    return (start,), (start + 1,), (start + 2,)


def _fits(sizes: Sizes, first: int) -> bool:
    """Whether the metadata of a flex group ends before the next group with reserved blocks.

    It must also end within the filesystem; a single group leaves room as in `_packed`.
    """
    groups = min(sizes.flex_bg_groups, sizes.groups - first)
    begin = sizes.first_block + first * sizes.blocks_per_group
    table_blocks = inode_table_blocks(sizes)
    _, _, tables = _packed(sizes, begin + reserved_blocks(sizes, first), groups, table_blocks)
    end = tables[-1] + table_blocks
    beyond = first - (-(end - begin) // sizes.blocks_per_group)
    reached = range(first + 1, min(beyond, sizes.groups))
    is_free = not any(reserved_blocks(sizes, group) for group in reached)
    return is_free and end <= sizes.size_blocks
