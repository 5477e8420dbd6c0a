"""How many bitmap blocks each member of a stripe holds, without a look at each group.

With flex_bg every flex group begins with the bitmaps of its F groups: one extent of 2F blocks.
Flex group i begins at block i * F * B (B is the number of blocks in a group), so these extents
are F * B blocks apart: the flex-group stride. The members repeat after a period of P blocks, and
the extents return to the same places after P / gcd(F * B, P) strides. Further flex groups repeat
those places, and are counted by multiplication.
"""

from collections import Counter
from functools import partial
from itertools import repeat
from math import gcd
from operator import add, floordiv, mod
from typing import NamedTuple

from ext4audit.facts.layout import Spread, judged_members
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.groups import reserved_blocks


class BitmapPlacement(NamedTuple):
    """The bitmap extents of `groups` groups of `group_blocks`, `flex_groups` to a flex group.

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
        """The distance of two extents, F * B."""
        return self.group_blocks * self.flex_groups


def placement_of(superblock: Superblock, group_blocks: int, flex_groups: int) -> BitmapPlacement:
    """Return the placement of a filesystem like this one with other groups and flex groups.

    The few groups that begin with a backup are taken for ordinary ones: at most 27 of 64 TiB.
    """
    first_block = superblock.first_block or 0
    groups = -(-(superblock.size_blocks - first_block) // group_blocks)
    ordinary_group = 2 * flex_groups
    return BitmapPlacement(
        group_blocks,
        flex_groups,
        groups,
        first_block + reserved_blocks(superblock, 0),
        first_block + reserved_blocks(superblock, ordinary_group),
    )


class _BitmapExtents(NamedTuple):
    """Extents of `blocks` blocks at begin + n * stride, for n from `first` until before `end`."""

    begin: int
    stride: int
    blocks: int
    first: int
    end: int


class StripePeriod:
    """One period of a stripe: its chunks, each with the members that a write into it writes."""

    def __init__(self, stack_map: StackMap, block_bytes: int) -> None:
        """Raise ValueError for a stack without a period of chunks of whole blocks."""
        geometry, period_bytes = stack_map.geometry, stack_map.period_bytes
        if geometry is None or not period_bytes:
            raise ValueError("no stripe of one kind from end to end")
        if geometry.chunk_bytes % block_bytes or period_bytes % geometry.chunk_bytes:
            raise ValueError("a chunk is not a whole number of blocks")
        self.members = judged_members(geometry)
        self.chunk_blocks = geometry.chunk_bytes // block_bytes
        self.period_blocks = period_bytes // block_bytes
        self._offset_blocks = geometry.offset_bytes // block_bytes
        self._map = stack_map
        self._block_bytes = block_bytes
        self._members_of_chunk: dict[int, tuple[int, ...]] = {}

    def covers_all_chunks(self, stride_blocks: int, flex_groups: int) -> bool:
        """Whether endless extents at this stride cover all chunks of the period equally.

        The extents begin at every multiple of the greatest common divisor of stride and period.
        They are even if that divides a chunk, or the length of an extent.
        """
        spacing = gcd(stride_blocks, self.period_blocks)
        return self.chunk_blocks % spacing == 0 or 2 * flex_groups % spacing == 0

    def spread(self, placement: BitmapPlacement, groups: int | None = None) -> Spread:
        """Return the writes of the bitmaps on each member, of the first `groups` groups or all."""
        loads = [0] * len(self._map.members)
        counted = min(groups or placement.groups, placement.groups)
        for chunk, blocks in self._blocks_in_chunks(placement, counted).items():
            for member in self._members_writing(chunk):
                loads[member] += blocks
        return Spread(tuple(loads[: self.members]))

    def _blocks_in_chunks(self, placement: BitmapPlacement, groups: int) -> Counter[int]:
        """Return the blocks of bitmaps in each chunk of the period."""
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
        """Return the blocks of some extents in each chunk; the loop over the extents is in C.

        Extents that cross the ends of chunks do so at the same offsets, apart from multiples of
        the greatest common divisor of stride and chunk.
        """
        unit = gcd(extents.stride, self.chunk_blocks)
        begin = extents.begin + self._offset_blocks
        found: Counter[int] = Counter()
        done = 0
        while done < extents.blocks:
            part = min(unit - (begin + done) % unit, extents.blocks - done)
            stride = extents.stride
            starts = range(extents.first * stride, extents.end * stride, stride)
            moved = map(add, starts, repeat(begin + done))
            places = map(mod, moved, repeat(self.period_blocks))
            chunks = Counter(map(floordiv, places, repeat(self.chunk_blocks)))
            found += Counter({chunk: times * part for chunk, times in chunks.items()})
            done += part
        return found

    def _members_writing(self, chunk: int) -> tuple[int, ...]:
        """Return the members that a write into a chunk of the period writes."""
        if chunk not in self._members_of_chunk:
            block = chunk * self.chunk_blocks - self._offset_blocks
            byte = block % self.period_blocks * self._block_bytes
            places = (*self._map.data(byte), *self._map.parity(byte))
            self._members_of_chunk[chunk] = tuple(place.member for place in places)
        return self._members_of_chunk[chunk]
