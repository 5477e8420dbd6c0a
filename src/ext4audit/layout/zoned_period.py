"""Counts of bitmaps on the zones of a RAID0 of unequal members, in closed form.

Each zone is a stripe over the members that are large enough to reach it. It has the bitmap extents
that begin in it: an extent that crosses the end of a zone is counted where it begins.
"""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

from ext4audit.facts.layout import Spread, StripeGeometry
from ext4audit.layout.bitmap_placement import BitmapPlacement, StripePeriod
from ext4audit.layout.levels import map_of
from ext4audit.layout.zones import ORIGINAL, Zone, attainable_evenness, zones_of


class _ZonePeriod(NamedTuple):
    """The period of one zone, the block of the filesystem at which it begins, and its members."""

    stripe: StripePeriod
    begin_blocks: int
    members: tuple[int, ...]


class ZonedPeriod(StripePeriod):
    """The zones of a stripe, with the interface of a `StripePeriod`.

    `period_blocks` is the smallest common period of all zones.
    """

    def __init__(self, geometry: StripeGeometry, block_bytes: int) -> None:
        """Raise ValueError if a zone has no period that consists of chunks of whole blocks."""
        self._geometry = geometry
        self._block_bytes = block_bytes
        self._zones = tuple(_zone(geometry, zone, block_bytes) for zone in zones_of(geometry))
        self.members = len(geometry.members)
        self.chunk_blocks = geometry.chunk_bytes // block_bytes
        self.period_blocks = lcm(*(zone.stripe.period_blocks for zone in self._zones))

    def covers_all_chunks(self, stride_blocks: int, flex_groups: int) -> bool:
        """Whether infinitely many extents at this stride cover all chunks of each zone equally."""
        return all(
            zone.stripe.covers_all_chunks(stride_blocks, flex_groups) for zone in self._zones
        )

    def spread(self, placement: BitmapPlacement, groups: int | None = None) -> Spread:
        """Return the bitmap writes on each member, for the first `groups` groups or all."""
        counted = min(groups or placement.groups, placement.groups)
        loads = [0] * self.members
        begins = [self._groups_before(zone.begin_blocks, placement) for zone in self._zones]
        for zone, first, behind in zip(self._zones, begins, [*begins[1:], counted], strict=True):
            before = _loads(zone.stripe, placement, min(first, counted))
            until = _loads(zone.stripe, placement, min(behind, counted))
            for member, less, more in zip(zone.members, before, until, strict=True):
                loads[member] += more - less
        size_bytes = counted * placement.group_blocks * self._block_bytes
        return Spread(tuple(loads), attainable_evenness(self._geometry, size_bytes))

    @staticmethod
    def _groups_before(begin_blocks: int, placement: BitmapPlacement) -> int:
        """Return the number of groups whose bitmaps are in extents that begin before a block."""
        extents = -(-(begin_blocks - placement.next_blocks) // placement.flex_stride_blocks)
        return max(0, extents) * placement.flex_groups


def _zone(geometry: StripeGeometry, zone: Zone, block_bytes: int) -> _ZonePeriod:
    """Return a zone as a stripe; in the original layout, its chunks are counted from the array."""
    names = tuple(geometry.members[component] for component in zone.components)
    stripe_bytes = len(names) * geometry.chunk_bytes
    counted_from = 0 if geometry.layout == ORIGINAL else zone.begin_bytes
    stripe = geometry._replace(
        members=names,
        member_bytes=(),
        layout=None,
        offset_bytes=(geometry.offset_bytes - counted_from) % stripe_bytes,
    )
    begin_blocks = (zone.begin_bytes - geometry.offset_bytes) // block_bytes
    return _ZonePeriod(StripePeriod(map_of(stripe), block_bytes), begin_blocks, zone.components)


def _loads(stripe: StripePeriod, placement: BitmapPlacement, groups: int) -> tuple[int, ...]:
    """Return the writes on each member of a zone, as if it contained all of the first groups."""
    if not groups:
        return (0,) * stripe.members
    return stripe.spread(placement, groups).loads
