"""md RAID0 over members of unequal size: it stripes in zones (drivers/md/raid0.c, 6.1).

Zone 0 stripes over all members as far as the smallest reaches, zone 1 over those that reach
further, and so on. Every member is first rounded down to whole chunks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ext4audit.layout.layer import Layer, Spot, no_parity, striped
from ext4audit.records import dataclass

ORIGINAL, ALTERNATE = 1, 2
"""The two orders of chunks in zones (`md/layout`, md(4)): Linux 3.14 changed it by mistake, and
5.4 made every array say which one it was written with."""


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone: where it begins on the array and on each of its legs, and which legs they are."""

    begin_bytes: int
    leg_begin_bytes: int
    legs: tuple[int, ...]


def raid0(member_bytes: Sequence[int], chunk_bytes: int, layout: int | None) -> Layer:
    """Return the layer of a RAID0; ValueError for zones whose order of chunks is not set."""
    if chunk_bytes < 1:
        raise ValueError(f"chunks of {chunk_bytes} bytes")
    whole_bytes = [size // chunk_bytes * chunk_bytes for size in member_bytes]
    if not any(whole_bytes) or min(whole_bytes) < 0:
        raise ValueError(f"members of at most {max(whole_bytes, default=0)} bytes")
    zones = tuple(_zones(whole_bytes))
    if len(zones) == 1:
        return striped(len(member_bytes), chunk_bytes)
    if layout not in {ORIGINAL, ALTERNATE}:
        raise ValueError("its members have different sizes, and the order in zones is not set")
    return _zoned(zones, chunk_bytes, sum(whole_bytes), original=layout == ORIGINAL)


def _zones(whole_bytes: Sequence[int]) -> Iterator[Zone]:
    begin = leg_begin = 0
    for leg_end in sorted(set(whole_bytes)):
        legs = tuple(leg for leg, size in enumerate(whole_bytes) if size > leg_begin)
        yield Zone(begin, leg_begin, legs)
        begin += (leg_end - leg_begin) * len(legs)
        leg_begin = leg_end


def _zoned(zones: Sequence[Zone], chunk_bytes: int, size_bytes: int, *, original: bool) -> Layer:
    begins = [zone.begin_bytes for zone in zones]

    def data(byte: int) -> tuple[Spot]:
        if byte >= size_bytes:
            raise ValueError(f"byte {byte} is beyond {size_bytes} bytes")
        zone = zones[bisect_right(begins, byte) - 1]
        chunk, inside = divmod(byte - zone.begin_bytes, chunk_bytes)
        # The original order goes on counting where the zone before ended.
        turn = byte // chunk_bytes if original else chunk
        count = len(zone.legs)
        at = zone.leg_begin_bytes + chunk // count * chunk_bytes + inside
        return ((zone.legs[turn % count], at),)

    return Layer(data, no_parity, 1, None, 0)
