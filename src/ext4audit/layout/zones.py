"""md's RAID0 over members of different sizes: its zones, and how even a layout on them can be.

Zone 0 stripes over all members up to the size of the smallest, zone 1 over the remaining larger
members, and so on. Every member is first rounded down to whole chunks (drivers/md/raid0.c,
create_strip_zones; Linux 6.1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit.facts.layout import Spread, StripeGeometry
from ext4audit.layout.byte_map import Layer, Location, no_parity, striped

ORIGINAL, ALTERNATE = 1, 2
"""The two orders of chunks in zones (`md/layout`, md(4)). Linux 3.14 changed the order by
mistake; since 5.4 every array records the order that it was written with."""


class Zone(NamedTuple):
    """One zone: where it begins on the array and on its components, and their indices."""

    begin_bytes: int
    component_begin_bytes: int
    components: tuple[int, ...]


def raid0(member_bytes: Sequence[int], chunk_bytes: int, layout: int | None) -> Layer:
    """Return the layer of a RAID0; raises ValueError for zones without a set order of chunks."""
    if chunk_bytes < 1:
        raise ValueError(f"chunks of {chunk_bytes} bytes")
    whole_bytes = [size // chunk_bytes * chunk_bytes for size in member_bytes]
    if not any(whole_bytes) or min(whole_bytes) < 0:
        raise ValueError(f"members of at most {max(whole_bytes, default=0)} bytes")
    zones = tuple(zones_of_sizes(whole_bytes))
    if len(zones) == 1:
        return striped(len(member_bytes), chunk_bytes)
    if layout not in {ORIGINAL, ALTERNATE}:
        raise ValueError("its members have different sizes, and the order in zones is not set")
    return _zoned(zones, chunk_bytes, sum(whole_bytes), original=layout == ORIGINAL)


def zones_of_sizes(whole_bytes: Sequence[int]) -> Iterator[Zone]:
    """Yield the zones of components of these sizes, which must be whole chunks."""
    begin = component_begin = 0
    for component_end in sorted(set(whole_bytes)):
        components = tuple(
            component for component, size in enumerate(whole_bytes) if size > component_begin
        )
        yield Zone(begin, component_begin, components)
        begin += (component_end - component_begin) * len(components)
        component_begin = component_end


def _zoned(zones: Sequence[Zone], chunk_bytes: int, size_bytes: int, *, original: bool) -> Layer:
    begins = [zone.begin_bytes for zone in zones]

    def data(byte: int) -> tuple[Location]:
        if byte >= size_bytes:
            raise ValueError(f"byte {byte} is beyond {size_bytes} bytes")
        zone = zones[bisect_right(begins, byte) - 1]
        chunk, inside = divmod(byte - zone.begin_bytes, chunk_bytes)
        # The original order continues the chunk count of the previous zones.
        number = byte // chunk_bytes if original else chunk
        count = len(zone.components)
        at = zone.component_begin_bytes + chunk // count * chunk_bytes + inside
        return ((zone.components[number % count], at),)

    return Layer(data, no_parity, 1, None, 0, chunk_bytes)


def zones_of(geometry: StripeGeometry) -> tuple[Zone, ...]:
    """Return the zones of an array with unequal members."""
    chunk_bytes = geometry.chunk_bytes
    return tuple(
        zones_of_sizes([size // chunk_bytes * chunk_bytes for size in geometry.member_bytes])
    )


def attainable_evenness(geometry: StripeGeometry | None, size_bytes: int) -> float:
    """Return Jain's index of a layout in proportion to the space of each member.

    `size_bytes` is how much of the array the filesystem uses, from its offset on. The index is 1
    for equal members, and assumed to be 1 if the members are arrays themselves.
    """
    if geometry is None or not geometry.is_zoned or geometry.components:
        return 1.0
    begin, end = geometry.offset_bytes, geometry.offset_bytes + size_bytes
    shares = [0] * len(geometry.members)
    zones = zones_of(geometry)
    ends = [*(zone.begin_bytes for zone in zones[1:]), end]
    for zone, zone_end in zip(zones, ends, strict=True):
        taken = max(0, min(end, zone_end) - max(begin, zone.begin_bytes))
        for component in zone.components:
            shares[component] += taken // len(zone.components)
    return Spread(tuple(shares)).evenness
