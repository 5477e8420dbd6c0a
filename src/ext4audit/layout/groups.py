"""Where the metadata of block groups lies, computed from the superblock without reading a group.

- The copies of the superblock, and the descriptors: one table behind each copy, or with meta_bg
  one descriptor block in some groups.
- The bitmaps and inode tables, by three documented rules. The groups of a flex group keep their
  block bitmaps together, then their inode bitmaps, then their inode tables, at the start of the
  flex group. A copy of the superblock and the descriptors at that start comes first. Without
  flex_bg each group does the same for itself, and a RAID stride shifts its bitmaps.

Sources: Documentation/filesystems/ext4/blockgroup.rst ("Flexible Block Groups", "Meta Block
Groups"), group_descr.rst and super.rst (Linux 6.1); mke2fs(8), -E stride; ext4(5);
descriptor_loc() of fs/ext4/super.c (6.1) for 1 KiB blocks whose first data block is 0.

Checked against e2fsprogs 1.47.0 on random sets of options. What a resize added, and what other
programs than mke2fs made, may lie elsewhere: read the descriptors where there are any.

At the end: how far a filesystem can grow, by the limits that its geometry sets once and for all.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ext4audit.facts.superblock import GroupTable, Superblock

SUPERBLOCK_OFFSET_BYTES = 1024
"""Where the superblock starts, whatever the block size; a boot loader may use what is before."""
SUPERBLOCK_BYTES = 1024
USUAL_BLOCK_BYTES = (4096, 1024, 2048)
_USUAL_BACKUP_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49)
"""The first that sparse_super selects: 1 and the powers of 3, 5 and 7."""
_SMALL_DESCRIPTOR_BYTES = 32
_LARGE_DESCRIPTOR_BYTES = 64
_UNSIGNED_64 = "Q"
_Places = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Block bitmaps, inode bitmaps and inode tables of some groups."""


def descriptor_bytes(superblock: Superblock) -> int:
    """Return the size of one group descriptor: where it is not known, the one that mke2fs makes."""
    if superblock.descriptor_bytes is not None:
        return superblock.descriptor_bytes
    return _LARGE_DESCRIPTOR_BYTES if "64bit" in superblock.features else _SMALL_DESCRIPTOR_BYTES


def descriptors_per_block(superblock: Superblock) -> int:
    """Return how many groups one descriptor block describes (a meta block group); ValueError."""
    per_block, rest = divmod(_block_bytes(superblock), descriptor_bytes(superblock))
    if rest:
        raise ValueError(f"descriptors of {superblock.descriptor_bytes} bytes fill no block")
    return per_block


def descriptor_table_blocks(superblock: Superblock) -> int:
    """Return how many blocks the descriptors of all groups fill."""
    groups, block_bytes = superblock.groups or 0, superblock.block_bytes or 1
    return -(-groups * descriptor_bytes(superblock) // block_bytes)


def inode_table_blocks(superblock: Superblock) -> int:
    """Return the blocks of one group's inode table."""
    table_bytes = (superblock.inodes_per_group or 0) * (superblock.inode_bytes or 0)
    return -(-table_bytes // (superblock.block_bytes or 1))


def descriptor_blocks(superblock: Superblock) -> tuple[int, ...]:
    """Return the block number of each primary descriptor block, in the order of the groups.

    They follow the superblock; with meta_bg, from block `first_meta_bg` on, each lies in the
    first of the groups that it describes. ValueError where the superblock lacks a field.
    """
    groups = _groups(superblock)
    count = -(-groups // descriptors_per_block(superblock))
    together = count
    if "meta_bg" in superblock.features:
        together = min(superblock.first_meta_bg or 0, count)
    after_superblock = SUPERBLOCK_OFFSET_BYTES // _block_bytes(superblock) + 1
    classic = range(after_superblock, after_superblock + together)
    return (*classic, *(_meta_block(superblock, index) for index in range(together, count)))


def descriptor_extents(superblock: Superblock) -> tuple[tuple[int, int], ...]:
    """Return offset and length in bytes of what holds the descriptors, adjacent blocks as one.

    The last one ends with the last descriptor and not with its block.
    """
    block_bytes, blocks = _block_bytes(superblock), descriptor_blocks(superblock)
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(blocks), 1) if b != a + 1)]
    ends = [*starts[1:], len(blocks)]
    extents = [
        (blocks[start] * block_bytes, (end - start) * block_bytes)
        for start, end in zip(starts, ends, strict=True)
    ]
    offset, length = extents[-1]
    unused = len(blocks) * descriptors_per_block(superblock) - _groups(superblock)
    extents[-1] = (offset, length - unused * descriptor_bytes(superblock))
    return tuple(extents)


def has_superblock(superblock: Superblock, group: int) -> bool:
    """Whether a group begins with a copy of the superblock."""
    if group == 0:
        return True
    if "sparse_super2" in superblock.features:
        return group in (superblock.backup_bgs or ())
    if group == 1 or "sparse_super" not in superblock.features:
        return True
    return any(_is_power(group, base) for base in (3, 5, 7))


def usual_backups(block_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return group and block of the first backups as mke2fs places them without other options.

    A group then has as many blocks as one block has bits; with 1 KiB, block 0 is the boot loader's.
    """
    first, per_group = int(block_bytes == SUPERBLOCK_OFFSET_BYTES), 8 * block_bytes
    return tuple((group, first + group * per_group) for group in _USUAL_BACKUP_GROUPS)


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


def _meta_block(superblock: Superblock, index: int) -> int:
    """Return the block of descriptor block `index` where meta_bg spreads them."""
    group = index * descriptors_per_block(superblock)
    first_block, blocks_per_group = superblock.first_block or 0, superblock.blocks_per_group or 0
    start = first_block + group * blocks_per_group
    return start + _boot_block(superblock, group) + has_superblock(superblock, group)


def _boot_block(superblock: Superblock, group: int) -> int:
    """Return 1 for block 0 of 1 KiB, which stays free where bigalloc makes it the first one."""
    is_first = group == 0 and superblock.first_block == 0
    return int(is_first and superblock.block_bytes == SUPERBLOCK_OFFSET_BYTES)


def _holds_descriptors(superblock: Superblock, group: int) -> bool:
    """Whether meta_bg puts a descriptor block here: first, second and last of its groups."""
    described = descriptors_per_block(superblock)
    return group % described in {0, 1, described - 1}


def _is_power(number: int, base: int) -> bool:
    while number % base == 0:
        number //= base
    return number == 1


def _block_bytes(superblock: Superblock) -> int:
    if not superblock.block_bytes:
        raise ValueError("the superblock's block size is not known")
    return superblock.block_bytes


def _groups(superblock: Superblock) -> int:
    if not superblock.groups:
        raise ValueError("the superblock's number of groups is not known")
    return superblock.groups


MOST_INODES = (1 << 32) - 1
WIDE_DESCRIPTOR_BYTES, DESCRIPTOR_BYTES = 64, 32


class Ceiling(NamedTuple):
    """The largest size in bytes, and which of the two limits it is: inodes or descriptors."""

    size_bytes: int
    is_of_inodes: bool


def ceiling_of(superblock: Superblock) -> Ceiling | None:
    """Return the size beyond which no resize goes; None where the geometry is not known.

    The kernel refuses a number of groups whose inodes do not fit 32 bits (fs/ext4/resize.c:
    "resize would cause inodes_count overflow"), and resize2fs 1.47.0 a group descriptor table
    that does not fit into one block group ("New size results in too many block group
    descriptors", with meta_bg as well).
    """
    each, group, inodes = (
        superblock.block_bytes,
        superblock.blocks_per_group,
        superblock.inodes_per_group,
    )
    if not (each and group and inodes) or superblock.first_block is None:
        return None
    usual = WIDE_DESCRIPTOR_BYTES if "64bit" in superblock.features else DESCRIPTOR_BYTES
    per_block = each // (superblock.descriptor_bytes or usual)
    by_inodes = MOST_INODES // inodes
    by_descriptors = (group - superblock.first_block) * per_block
    groups = min(by_inodes, by_descriptors)
    return Ceiling(groups * group * each, is_of_inodes=by_inodes <= by_descriptors)
