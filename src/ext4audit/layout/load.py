"""How much block-group metadata lies on each member device of a stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from math import gcd, lcm
from operator import floordiv, mod

from ext4audit.evidence import Unknown
from ext4audit.facts.layout import Basis, MemberLoad, MetadataLayout
from ext4audit.facts.superblock import GroupTable, Superblock
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.groups import descriptor_blocks, descriptors_per_block
from ext4audit.layout.levels import map_of

PART_BYTES = 64 << 10
"""Parts of a volume begin at multiples of this: LVM's extents and the zones of an array do."""


def measure(
    table: GroupTable,
    superblock: Superblock,
    stack_map: StackMap,
    *,
    basis: Basis = "descriptors",
    doubts: tuple[Unknown, ...] = (),
) -> MetadataLayout:
    """Count the metadata of all block groups per member device.

    Raises ValueError where the superblock lacks a field, or has another number of groups than
    there are locations: a table that was cut off must not be counted as a whole filesystem.
    """
    block_bytes, blocks_per_group = superblock.block_bytes, superblock.blocks_per_group
    if not block_bytes or not blocks_per_group or superblock.groups is None:
        raise ValueError("the superblock's block size and group size are not known")
    groups = len(table.block_bitmaps)
    if superblock.groups != groups:
        raise ValueError(f"{groups} group descriptors of {superblock.groups} are seen")
    return MetadataLayout(
        geometry=stack_map.geometry,
        block_bytes=block_bytes,
        blocks_per_group=blocks_per_group,
        groups=groups,
        flex_bg_groups=superblock.flex_bg_groups or 1,
        size_blocks=superblock.size_blocks,
        cluster_blocks=superblock.cluster_blocks or 1,
        members=_members(table, superblock, _MemberCounter(stack_map, block_bytes)),
        basis=basis,
        doubts=doubts,
    )


class _MemberCounter:
    """Counts blocks per member device.

    Blocks that are known to share their members are mapped once: they form one run.
    """

    def __init__(self, stack_map: StackMap, block_bytes: int) -> None:
        self.members = stack_map.members
        self._map = stack_map
        self._block_bytes = block_bytes
        run_blocks, rest = divmod(_run_bytes(stack_map), block_bytes)
        self._run_blocks = 1 if rest else run_blocks
        period_bytes = stack_map.period_bytes
        self._period_blocks = lcm(period_bytes, block_bytes) // block_bytes if period_bytes else 0

    def fold(self, blocks: Iterable[int]) -> Counter[int]:
        """Return first blocks of runs, each with how many of `blocks` are like it.

        All loops are in C: 64 TiB have 524,288 groups with three blocks each.
        """
        if self._period_blocks:
            blocks = map(mod, blocks, repeat(self._period_blocks))
        runs = Counter(map(floordiv, blocks, repeat(self._run_blocks)))
        return Counter({run * self._run_blocks: count for run, count in runs.items()})

    def data(self, folded: Mapping[int, int]) -> list[int]:
        """Return the number of blocks on each member, each copy of a mirrored one."""
        loads = [0] * len(self.members)
        for block, count in folded.items():
            for place in self._map.data(block * self._block_bytes):
                loads[place.member] += count
        return loads

    def parity(self, folded: Mapping[int, int]) -> list[int]:
        """Return the number of parity blocks on each member that are written with the blocks."""
        loads = [0] * len(self.members)
        for block, count in folded.items():
            for place in self._map.parity(block * self._block_bytes):
                loads[place.member] += count
        return loads


def _run_bytes(stack_map: StackMap) -> int:
    """Return the length of an aligned run of bytes that certainly lies on the same members."""
    geometry = stack_map.geometry
    if geometry is None:
        return 1
    chunk_bytes = gcd(geometry.chunk_bytes, geometry.offset_bytes)
    if stack_map.period_bytes is None:
        return gcd(chunk_bytes, PART_BYTES)
    # Below the members of the top stripe there may be another one, with smaller chunks.
    is_plain = map_of(geometry).period_bytes == stack_map.period_bytes
    return chunk_bytes if is_plain else 1


def _members(
    table: GroupTable, superblock: Superblock, counter: _MemberCounter
) -> tuple[MemberLoad, ...]:
    block_bitmaps = counter.fold(table.block_bitmaps)
    inode_bitmaps = counter.fold(table.inode_bitmaps)
    inode_tables = counter.fold(table.inode_tables)
    first_blocks = descriptor_blocks(superblock)
    described = _described(superblock, first_blocks, len(table.block_bitmaps), counter)
    bitmaps = block_bitmaps + inode_bitmaps
    columns: Sequence[list[int]] = (
        counter.data(block_bitmaps),
        counter.data(inode_bitmaps),
        counter.data(inode_tables),
        counter.data(counter.fold(first_blocks)),
        counter.data(described),
        counter.parity(bitmaps),
        counter.parity(bitmaps + inode_tables + described),
    )
    rows = zip(*columns, strict=True)
    return tuple(MemberLoad(name, *row) for name, row in zip(counter.members, rows, strict=True))


def _described(
    superblock: Superblock, blocks: Sequence[int], groups: int, counter: _MemberCounter
) -> Counter[int]:
    """Return the descriptor blocks, each as often as it describes a group."""
    per_block = descriptors_per_block(superblock)
    found: Counter[int] = Counter()
    for index, block in enumerate(blocks):
        (folded,) = counter.fold((block,))
        found[folded] += min(per_block, groups - index * per_block)
    return found
