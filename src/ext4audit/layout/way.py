"""The ways of bytes through stacked devices: layers, joined down to the devices at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.layer import Layer
from ext4audit.layout.stack_map import Find, Place, StackMap
from ext4audit.records import dataclass, replace

MOST_PLACES = 4096
"""More copies of one byte are no stack that anybody built: mirrors of one device stacked on
each other double them with every layer, and a lookup would never end."""

ANY_PERIOD_BYTES = 64 << 10
"""Where all bytes lie on the same members every distance is a period: this one is a multiple of
every block size of ext4."""


@dataclass(frozen=True, slots=True)
class Way:
    """A device with all below it: the places of its bytes on the devices at the bottom.

    `leaves` are the indices of those devices in slot order; `places` is the most places that
    one byte has; `geometry` is the first layer that stripes.
    """

    data: Find
    parity: Find
    leaves: tuple[int, ...]
    places: int
    period_bytes: int | None
    geometry: StripeGeometry | None


Leg = tuple[Way, int]
"""A device below, and the byte of it that the layer's data starts at."""


def bottom(member: int, size_bytes: int | None) -> Way:
    """Return the way of a device that nothing lies below; None where its size is not known."""

    def data(byte: int) -> tuple[Place, ...]:
        _refuse_outside(byte, size_bytes)
        return (Place(member, byte),)

    return Way(data, no_places, (member,), 1, 1, None)


def no_places(_byte: int) -> tuple[Place, ...]:
    """Return no places: no layer of this way has parity."""
    return ()


def through(layer: Layer, legs: Sequence[Leg], size_bytes: int | None) -> Way:
    """Join a layer to the ways of its legs; `size_bytes` is the device's own, where known.

    ValueError where a leg starts before its device, or bytes have too many places.
    """
    ways = [way for way, _ in legs]
    starts = [start for _, start in legs]
    places = layer.spots * max(way.places for way in ways)
    if min(starts) < 0 or places > MOST_PLACES:
        raise ValueError(f"a leg at byte {min(starts)}, a byte in {places} places")

    def data(byte: int) -> tuple[Place, ...]:
        _refuse_outside(byte, size_bytes)
        spots = layer.data(byte)
        return tuple(place for leg, at in spots for place in ways[leg].data(starts[leg] + at))

    def parity(byte: int) -> tuple[Place, ...]:
        _refuse_outside(byte, size_bytes)
        own = layer.parity(byte)
        beside = (place for leg, at in own for place in ways[leg].data(starts[leg] + at))
        # Parity is written as data is: an array below keeps its own parity of both.
        below = (
            place
            for leg, at in (*layer.data(byte), *own)
            for place in ways[leg].parity(starts[leg] + at)
        )
        return (*beside, *below)

    leaves = tuple(dict.fromkeys(leaf for way in ways for leaf in way.leaves))
    return Way(data, parity, leaves, places, _period(layer, ways), _geometry(layer, legs))


def as_map(way: Way, members: tuple[str, ...]) -> StackMap:
    """Return the map of a device, with the names of the devices at the bottom."""
    period_bytes = ANY_PERIOD_BYTES if way.period_bytes == 1 else way.period_bytes
    return StackMap(members, way.geometry, way.data, way.parity, period_bytes)


def _refuse_outside(byte: int, size_bytes: int | None) -> None:
    if byte < 0 or (size_bytes is not None and byte >= size_bytes):
        raise ValueError(f"byte {byte} is beyond the device of {size_bytes} bytes")


def _period(layer: Layer, ways: Sequence[Way]) -> int | None:
    """Return after how many bytes all members below come again."""
    periods = [way.period_bytes for way in ways if way.period_bytes is not None]
    if layer.period_bytes is None or len(periods) < len(ways):
        return None
    turns = (period // gcd(period, layer.advance_bytes) for period in periods)
    return layer.period_bytes * lcm(*turns)


def _geometry(layer: Layer, legs: Sequence[Leg]) -> StripeGeometry | None:
    """Return the geometry of the first leg that stripes, as it is seen from this device."""
    for number, (way, start) in enumerate(legs):
        if way.geometry is not None:
            begin = layer.begins[number] if layer.begins else 0
            return _moved(way.geometry, start - begin)
    return None


def _moved(geometry: StripeGeometry, bytes_further: int) -> StripeGeometry:
    offset_bytes = geometry.offset_bytes + bytes_further
    if offset_bytes < 0:  # a later part of a concatenation: what counts is the turn of the members
        offset_bytes %= geometry.chunk_bytes * len(geometry.members)
    return replace(geometry, offset_bytes=offset_bytes)
