"""How the bitmaps of a filesystem march over a stripe, without a look at each group.

With flex_bg every flex group begins with the bitmaps of its F groups, 2F blocks back to back.
Flex group i begins at block i * F * B (B are the blocks of a group), so that these runs step
over the stripe by F * B blocks, modulo the period P after which the members come again. The
steps close a circle after P / gcd(F * B, P) of them. More flex groups than that meet the same
places once more, and are counted by multiplication.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from math import gcd
from operator import add, floordiv, mod

from ext4audit.facts.layout import Spread, judged_members
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.groups import reserved_blocks


@dataclass(frozen=True, slots=True)
class March:
    """The bitmap runs of a filesystem: `groups` groups of `group_blocks`, packed by `flex_groups`.

    `first_blocks` is where the first run begins, `next_blocks` where the others do within their
    flex group: copies of the superblock stand before them.
    """

    group_blocks: int
    flex_groups: int
    groups: int
    first_blocks: int
    next_blocks: int

    @property
    def step_blocks(self) -> int:
        """The distance of two runs, F * B."""
        return self.group_blocks * self.flex_groups


def march_of(superblock: Superblock, group_blocks: int, flex_groups: int) -> March:
    """Return the march of a filesystem like this one with other groups and flex groups.

    The few groups that begin with a backup are taken for ordinary ones: at most 27 of 64 TiB.
    """
    first_block = superblock.first_block or 0
    groups = -(-(superblock.size_blocks - first_block) // group_blocks)
    ordinary = 2 * flex_groups
    return March(
        group_blocks,
        flex_groups,
        groups,
        first_block + reserved_blocks(superblock, 0),
        first_block + reserved_blocks(superblock, ordinary),
    )


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of `blocks` blocks: number n, from `first` until before `beyond`, at begin + n step."""

    begin: int
    step: int
    blocks: int
    first: int
    beyond: int


class Track:
    """A stripe as a march sees it: chunks in a circle, each with the members that write it."""

    def __init__(self, stack_map: StackMap, block_bytes: int) -> None:
        """Raise ValueError for what is no circle of chunks of whole blocks."""
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
        self._writers: dict[int, tuple[int, ...]] = {}

    def meets_all(self, step_blocks: int, flex_groups: int) -> bool:
        """Whether runs so far apart, continued for ever, cover all chunks of the circle equally.

        They begin at every multiple of the greatest common divisor of step and period: even if
        that divides a chunk, or the length of a run.
        """
        spacing = gcd(step_blocks, self.period_blocks)
        return self.chunk_blocks % spacing == 0 or 2 * flex_groups % spacing == 0

    def spread(self, march: March, groups: int | None = None) -> Spread:
        """Return the writes of the bitmaps on each member, of the first `groups` groups or all."""
        loads = [0] * len(self._map.members)
        for chunk, blocks in self._chunks(march, min(groups or march.groups, march.groups)).items():
            for member in self._written(chunk):
                loads[member] += blocks
        return Spread(tuple(loads[: self.members]))

    def _chunks(self, march: March, groups: int) -> Counter[int]:
        """Return the blocks of bitmaps in each chunk of the circle."""
        flex_groups, step = march.flex_groups, march.step_blocks
        whole, rest = divmod(groups, flex_groups)
        ordinary = partial(_Runs, march.next_blocks, step, 2 * flex_groups)
        turns = self.period_blocks // gcd(step, self.period_blocks)
        rounds, more = divmod(max(whole - 1, 0), turns)
        found = self._lay(_Runs(march.first_blocks, step, 2 * min(flex_groups, groups), 0, 1))
        found += self._lay(ordinary(1, 1 + more))
        if rounds:
            circle = self._lay(ordinary(1, 1 + turns))
            found += Counter({chunk: blocks * rounds for chunk, blocks in circle.items()})
        if whole and rest:
            found += self._lay(_Runs(march.next_blocks, step, 2 * rest, whole, whole + 1))
        return found

    def _lay(self, runs: _Runs) -> Counter[int]:
        """Return the blocks of some runs in each chunk; the loop over the runs is in C.

        Where runs cross the ends of chunks, all do so at the same places but for multiples of
        the greatest common divisor of step and chunk.
        """
        unit = gcd(runs.step, self.chunk_blocks)
        begin = runs.begin + self._offset_blocks
        found: Counter[int] = Counter()
        laid = 0
        while laid < runs.blocks:
            part = min(unit - (begin + laid) % unit, runs.blocks - laid)
            starts = range(runs.first * runs.step, runs.beyond * runs.step, runs.step)
            moved = map(add, starts, repeat(begin + laid))
            places = map(mod, moved, repeat(self.period_blocks))
            chunks = Counter(map(floordiv, places, repeat(self.chunk_blocks)))
            found += Counter({chunk: times * part for chunk, times in chunks.items()})
            laid += part
        return found

    def _written(self, chunk: int) -> tuple[int, ...]:
        """Return the members that a write into a chunk of the circle writes."""
        if chunk not in self._writers:
            block = chunk * self.chunk_blocks - self._offset_blocks
            byte = block % self.period_blocks * self._block_bytes
            places = (*self._map.data(byte), *self._map.parity(byte))
            self._writers[chunk] = tuple(place.member for place in places)
        return self._writers[chunk]
