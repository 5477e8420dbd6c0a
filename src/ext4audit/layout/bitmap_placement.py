"""How much metadata each member of a stripe holds, and how often descriptor blocks are written.

With flex_bg every flex group begins with the bitmaps of its F groups: one extent of 2F blocks.
Flex group i begins at block i * F * B (B is the number of blocks in a group), so these extents
are F * B blocks apart: the flex-group stride. The members repeat after a period of P blocks, and
the extents return to the same places after P / gcd(F * B, P) strides. Further flex groups repeat
those places and are counted by multiplication instead of one by one.

A jbd2 transaction holds a block once, however often it changes, and a checkpoint writes it in
place once (Documentation/filesystems/ext4/journal.rst). One descriptor block describes 64 groups
(4 KiB blocks, 64bit), so changes in several of them are one write. Dirty descriptor blocks that
are adjacent on the disk are also one write, because the block layer merges them. Bitmaps and
inode tables belong to single groups, and groups that change at the same time are rarely adjacent.

The number of groups that change between two checkpoints depends on the load. GROUPS is calibrated
with the experiment `hotspot` of the lab: see docs/measurements.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from math import gcd, lcm
from operator import add, floordiv, mod
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.evidence import Unknown
from ext4audit.facts.layout import (
    Basis,
    MemberLoad,
    MetadataLayout,
    Spread,
    StripeGeometry,
    judged_members,
)
from ext4audit.facts.superblock import GroupTable, Sizes
from ext4audit.layout import (
    descriptor_blocks,
    descriptor_table_blocks,
    descriptors_per_block,
    reserved_blocks,
)
from ext4audit.layout.byte_map import Find, StackMap


class BitmapPlacement(NamedTuple):
    """The bitmap extents of `groups` groups of `group_blocks` blocks, `flex_groups` per flex group.

    `first_blocks` is where the first extent begins. `next_blocks` is where the others begin
    within their flex group. Copies of the superblock precede them.
    """

    group_blocks: int
    flex_groups: int
    groups: int
    first_blocks: int
    next_blocks: int

    @property
    def flex_stride_blocks(self) -> int:
        """The distance between the starts of two extents, F * B."""
        return self.group_blocks * self.flex_groups


def placement_of(sizes: Sizes) -> BitmapPlacement:
    """Return the placement of the bitmaps of a filesystem.

    The few groups that begin with a backup (27 in 64 TiB) are treated as ordinary ones.
    """
    ordinary_group = 2 * sizes.flex_bg_groups
    return BitmapPlacement(
        sizes.blocks_per_group,
        sizes.flex_bg_groups,
        sizes.groups,
        sizes.first_block + reserved_blocks(sizes, 0),
        sizes.first_block + reserved_blocks(sizes, ordinary_group),
    )


class _BitmapExtents(NamedTuple):
    """Extents of `blocks` blocks at begin + n * stride, for n in range(first, end)."""

    begin: int
    stride: int
    blocks: int
    first: int
    end: int


MOST_NESTED_CHUNKS = 1 << 14
"""The most chunks in the period of a stripe over arrays: half a second at 30 µs each. A few equal
arrays have hundreds; RAID6 arrays of 7, 11, 13 and 17 disks have millions."""


class StripePeriod:
    """One period of a stripe: its chunks, each with the members that are written with it."""

    def __init__(self, stack_map: StackMap, block_bytes: int) -> None:
        """Raise ValueError if the stack has no period that consists of chunks of whole blocks."""
        geometry, period_bytes = stack_map.geometry, stack_map.period_bytes
        if geometry is None or not period_bytes:
            raise ValueError("the stripe geometry is not uniform")
        chunk_bytes = geometry.run_bytes
        if chunk_bytes % block_bytes or period_bytes % chunk_bytes:
            raise ValueError("the chunk size is not a multiple of the block size")
        if geometry.components and period_bytes // chunk_bytes > MOST_NESTED_CHUNKS:
            raise ValueError("the arrays below it repeat together after too many chunks")
        self._judged = judged_members(geometry)
        self.members = len(self._judged)
        self.chunk_blocks = chunk_bytes // block_bytes
        self.period_blocks = period_bytes // block_bytes
        self._offset_blocks = geometry.offset_bytes // block_bytes
        self._map = stack_map
        self._block_bytes = block_bytes
        self._members_of_chunk: dict[int, tuple[int, ...]] = {}

    def covers_all_chunks(self, stride_blocks: int, flex_groups: int) -> bool:
        """Whether infinitely many extents at this stride cover all chunks of the period equally.

        The extents begin at every multiple of the greatest common divisor of stride and period.
        They are even if that divides a chunk or the length of an extent.
        """
        spacing = gcd(stride_blocks, self.period_blocks)
        return self.chunk_blocks % spacing == 0 or 2 * flex_groups % spacing == 0

    def spread(self, placement: BitmapPlacement, groups: int | None = None) -> Spread:
        """Return the bitmap writes on each member, for the first `groups` groups or all."""
        loads = [0] * len(self._map.members)
        counted = min(groups or placement.groups, placement.groups)
        for chunk, blocks in self._blocks_in_chunks(placement, counted).items():
            for member in self._members_writing(chunk):
                loads[member] += blocks
        return Spread(tuple(loads[slot] for slot in self._judged))

    def _blocks_in_chunks(self, placement: BitmapPlacement, groups: int) -> Counter[int]:
        """Return the number of bitmap blocks in each chunk of the period."""
        flex_groups, stride = placement.flex_groups, placement.flex_stride_blocks
        whole, rest = divmod(groups, flex_groups)
        ordinary = partial(_BitmapExtents, placement.next_blocks, stride, 2 * flex_groups)
        strides = self.period_blocks // gcd(stride, self.period_blocks)
        repeats, more = divmod(max(whole - 1, 0), strides)
        first_blocks = 2 * min(flex_groups, groups)
        found = self._count(_BitmapExtents(placement.first_blocks, stride, first_blocks, 0, 1))
        found += self._count(ordinary(1, 1 + more))
        if repeats:
            period = self._count(ordinary(1, 1 + strides))
            found += Counter({chunk: blocks * repeats for chunk, blocks in period.items()})
        if whole and rest:
            last = _BitmapExtents(placement.next_blocks, stride, 2 * rest, whole, whole + 1)
            found += self._count(last)
        return found

    def _count(self, extents: _BitmapExtents) -> Counter[int]:
        """Return the number of blocks of extents in each chunk; the loop over them runs in C.

        Extents that cross the ends of chunks do so at the same offsets, apart from multiples of
        the greatest common divisor of stride and chunk.
        """
        unit = gcd(extents.stride, self.chunk_blocks)
        begin = extents.begin + self._offset_blocks
        found: dict[int, int] = {}
        done = 0
        while done < extents.blocks:
            part = min(unit - (begin + done) % unit, extents.blocks - done)
            stride = extents.stride
            starts = range(extents.first * stride, extents.end * stride, stride)
            moved = map(add, starts, repeat(begin + done))
            places = map(mod, moved, repeat(self.period_blocks))
            chunks = Counter(map(floordiv, places, repeat(self.chunk_blocks)))
            for chunk, times in chunks.items():
                found[chunk] = found.get(chunk, 0) + times * part
            done += part
        return Counter(found)

    def _members_writing(self, chunk: int) -> tuple[int, ...]:
        """Return the members that are written with a chunk of the period, for data and parity."""
        if chunk not in self._members_of_chunk:
            block = chunk * self.chunk_blocks - self._offset_blocks
            byte = block % self.period_blocks * self._block_bytes
            places = (*self._map.data(byte), *self._map.parity(byte))
            self._members_of_chunk[chunk] = tuple(place.member for place in places)
        return self._members_of_chunk[chunk]


def measure(
    table: GroupTable,
    sizes: Sizes,
    stack_map: StackMap,
    *,
    basis: Basis = "descriptors",
    doubts: tuple[Unknown, ...] = (),
    device_bytes: int | None = None,
) -> MetadataLayout:
    """Count the metadata of all block groups per member device.

    Raises ValueError if the table has another number of groups than the filesystem: a truncated
    table must not be counted as a whole filesystem.
    """
    if sizes.groups != table.groups:
        raise ValueError(f"{table.groups} group descriptors of {sizes.groups} are seen")
    return MetadataLayout(
        geometry=stack_map.geometry,
        block_bytes=sizes.block_bytes,
        blocks_per_group=sizes.blocks_per_group,
        groups=sizes.groups,
        flex_bg_groups=sizes.flex_bg_groups,
        size_blocks=sizes.size_blocks,
        cluster_blocks=sizes.cluster_blocks,
        members=_members(table, sizes, _MemberCounter(stack_map, sizes.block_bytes)),
        basis=basis,
        doubts=doubts,
        descriptor_writes=descriptor_writes(sizes),
        attainable=_attainable(stack_map.geometry, sizes),
        device_bytes=device_bytes,
    )


def _attainable(geometry: StripeGeometry | None, sizes: Sizes) -> float:
    if geometry is None or not geometry.is_zoned:
        return 1.0
    index: float = lazily("layout.zones", "attainable_evenness")(geometry, sizes.size_bytes)
    return index


class _MemberCounter:
    """Counts blocks per member device.

    Blocks that are known to be on the same members form a run and are mapped once.
    """

    def __init__(self, stack_map: StackMap, block_bytes: int) -> None:
        self.members = stack_map.members
        self._map = stack_map
        self._block_bytes = block_bytes
        run_blocks, rest = divmod(stack_map.run_bytes, block_bytes)
        self._run_blocks = 1 if rest else max(run_blocks, 1)
        period_bytes = stack_map.period_bytes
        self._period_blocks = lcm(period_bytes, block_bytes) // block_bytes if period_bytes else 0

    def fold(self, blocks: Iterable[int]) -> Counter[int]:
        """Return the first block of each run, with the number of `blocks` in equivalent runs.

        All loops run in C: 64 TiB have 524,288 groups with three blocks each.
        """
        if self._period_blocks:
            blocks = map(mod, blocks, repeat(self._period_blocks))
        runs = Counter(map(floordiv, blocks, repeat(self._run_blocks)))
        return Counter({run * self._run_blocks: count for run, count in runs.items()})

    def data(self, folded: Mapping[int, int]) -> list[int]:
        """Return the number of blocks on each member; each copy of a mirrored block counts."""
        return self._loads(folded, self._map.data)

    def parity(self, folded: Mapping[int, int]) -> list[int]:
        """Return the number of parity blocks on each member that the blocks cause to be written."""
        return self._loads(folded, self._map.parity)

    def _loads(self, folded: Mapping[int, int], find: Find) -> list[int]:
        loads = [0] * len(self.members)
        for block, count in folded.items():
            for place in find(block * self._block_bytes):
                loads[place.member] += count
        return loads


def _members(table: GroupTable, sizes: Sizes, counter: _MemberCounter) -> tuple[MemberLoad, ...]:
    block_bitmaps = counter.fold(table.block_bitmaps)
    inode_bitmaps = counter.fold(table.inode_bitmaps)
    inode_tables = counter.fold(table.inode_tables)
    first_blocks = descriptor_blocks(sizes)
    described = _described(sizes, first_blocks, len(table.block_bitmaps), counter)
    bitmaps = block_bitmaps + inode_bitmaps
    columns: Sequence[list[int]] = (
        counter.data(block_bitmaps),
        counter.data(inode_bitmaps),
        counter.data(inode_tables),
        counter.data(counter.fold(first_blocks)),
        counter.data(described),
        counter.parity(bitmaps),
        counter.parity(bitmaps + inode_tables + described),
        counter.parity(described),
    )
    rows = zip(*columns, strict=True)
    return tuple(MemberLoad(name, *row) for name, row in zip(counter.members, rows, strict=True))


def _described(
    sizes: Sizes, blocks: Sequence[int], groups: int, counter: _MemberCounter
) -> Counter[int]:
    """Return the descriptor blocks, each with the number of groups that it describes."""
    per_block = descriptors_per_block(sizes)
    found: Counter[int] = Counter()
    for index, block in enumerate(blocks):
        (folded,) = counter.fold((block,))
        found[folded] += min(per_block, groups - index * per_block)
    return found


GROUPS = 100
"""How many groups change between two checkpoints."""


def descriptor_writes(sizes: Sizes, groups: int = GROUPS) -> float:
    """Return the writes of descriptor blocks per changed group, at most 1.

    The changed groups are assumed to be random. With meta_bg no descriptor blocks are adjacent.
    """
    blocks = descriptor_table_blocks(sizes)
    if not blocks:
        return 1.0
    dirty = 1 - (1 - 1 / blocks) ** groups
    written = blocks * dirty
    if "meta_bg" not in sizes.features:
        written = written * (1 - dirty) + dirty
    return min(written / groups, 1.0)
