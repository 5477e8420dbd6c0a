"""Where the bitmaps and inode tables of block groups lie, without reading a group.

They follow from the superblock by three documented rules. The groups of a flex group keep their
block bitmaps together, then their inode bitmaps, then their inode tables, at the start of the
flex group. A copy of the superblock and the descriptors at that start comes first. Without
flex_bg each group does the same for itself, and a RAID stride shifts its bitmaps.

Sources: Documentation/filesystems/ext4/blockgroup.rst ("Flexible Block Groups"; Linux 6.1);
mke2fs(8), -E stride; ext4(5).

Checked against e2fsprogs 1.47.0 on random sets of options. What a resize added, and what other
programs than mke2fs made, may lie elsewhere: read the descriptors where there are any.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.facts.superblock import GroupTable, Superblock
from ext4audit.layout import boot_block, descriptor_table_blocks, has_superblock, holds_descriptors

_UNSIGNED_64 = "Q"
_Places = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Block bitmaps, inode bitmaps and inode tables of some groups."""


def inode_table_blocks(superblock: Superblock) -> int:
    """Return the blocks of one group's inode table."""
    table_bytes = (superblock.inodes_per_group or 0) * (superblock.inode_bytes or 0)
    return -(-table_bytes // (superblock.block_bytes or 1))


def reserved_blocks(superblock: Superblock, group: int) -> int:
    """Return how many blocks at the start of a group its own metadata must leave free.

    Only for filesystems without descriptors in both places (meta_bg set later, by a resize).
    """
    copy = has_superblock(superblock, group)
    if "meta_bg" in superblock.features:
        return copy + holds_descriptors(superblock, group) + boot_block(superblock, group)
    if not copy:
        return 0
    return (
        boot_block(superblock, group)
        + 1
        + descriptor_table_blocks(superblock)
        + (superblock.reserved_gdt_blocks or 0)
    )


def predict_table(superblock: Superblock) -> GroupTable:
    """Return the places of the metadata as mke2fs chooses them for a filesystem like this.

    Raises ValueError where the superblock lacks the sizes of blocks, groups or inodes.
    """
    frame = _frame(superblock)
    columns = tuple(array(_UNSIGNED_64) for _ in range(3))
    for first in range(0, frame.groups, frame.flex_groups):
        start = frame.first_block + first * frame.group_blocks + reserved_blocks(superblock, first)
        if frame.flex_groups > 1 or not frame.stride_blocks:
            places = _packed(frame, start, min(frame.flex_groups, frame.groups - first))
        else:
            places = _strided(frame, start, first)
        for column, blocks in zip(columns, places, strict=True):
            column.extend(blocks)
    return GroupTable(*columns)


def is_exact(superblock: Superblock) -> bool:
    """Whether `predict_table` gives each place to the block for what mke2fs 1.47 makes.

    It is not exact where the inode tables of a flex group reach a later group's copy of the
    superblock (large flex groups, very many inodes): mke2fs then searches for gaps. Nor is it
    after `-E packed_meta_blocks=1`, which the superblock does not record.
    """
    frame = _frame(superblock)
    if "meta_bg" in superblock.features and superblock.first_meta_bg:
        return False
    if frame.flex_groups == 1:
        return True
    return all(
        _fits(superblock, frame, first) for first in range(0, frame.groups, frame.flex_groups)
    )


class _Frame(NamedTuple):
    """What the closed form computes with, all in blocks and groups."""

    first_block: int
    size_blocks: int
    group_blocks: int
    groups: int
    table_blocks: int
    flex_groups: int
    stride_blocks: int


def _frame(superblock: Superblock) -> _Frame:
    sizes = (superblock.block_bytes, superblock.blocks_per_group, superblock.inodes_per_group)
    block_bytes, group_blocks, inodes = sizes
    if not block_bytes or not group_blocks or not inodes or not superblock.inode_bytes:
        raise ValueError("the sizes of blocks, groups and inodes are not known")
    if superblock.first_block is None or superblock.groups is None:
        raise ValueError("the first block is not known")
    return _Frame(
        first_block=superblock.first_block,
        size_blocks=superblock.size_blocks,
        group_blocks=group_blocks,
        groups=superblock.groups,
        table_blocks=inode_table_blocks(superblock),
        flex_groups=superblock.flex_bg_groups or 1,
        stride_blocks=superblock.stride_blocks,
    )


def _packed(frame: _Frame, start: int, groups: int) -> _Places:
    """Return the places of groups that are packed together; without flex_bg that is one.

    A last flex group of fewer groups takes less room, except one of a single group.
    """
    room = groups if groups > 1 else frame.flex_groups
    inode_bitmaps, tables = start + room, start + 2 * room
    return (
        range(start, start + groups),
        range(inode_bitmaps, inode_bitmaps + groups),
        range(tables, tables + groups * frame.table_blocks, frame.table_blocks),
    )


def _strided(frame: _Frame, start: int, group: int) -> _Places:
    """Return the places in a single group whose bitmaps the RAID stride shifts.

    The shift is the stride times the group number, within what the inode table leaves free.
    """
    free = start + frame.table_blocks
    last = min(frame.first_block + (group + 1) * frame.group_blocks, frame.size_blocks) - 1
    bitmap = free + frame.stride_blocks * group % (last - free + 1)
    if bitmap < last:
        return (bitmap,), (bitmap + 1,), (start,)
    return (bitmap,), (start,), (start + 1,)


def _fits(superblock: Superblock, frame: _Frame, first: int) -> bool:
    """Whether the metadata of a flex group ends before the next group with reserved blocks.

    It must also end before the filesystem does, with the room that a single group leaves free.
    """
    groups = min(frame.flex_groups, frame.groups - first)
    begin = frame.first_block + first * frame.group_blocks
    _, _, tables = _packed(frame, begin + reserved_blocks(superblock, first), groups)
    end = tables[-1] + frame.table_blocks
    beyond = first - (-(end - begin) // frame.group_blocks)
    reached = range(first + 1, min(beyond, frame.groups))
    is_free = not any(reserved_blocks(superblock, group) for group in reached)
    return is_free and end <= frame.size_blocks
