"""Byte maps: which component of each layer, and finally which leaf device, holds a byte.

The simple ones are here: mirrors, windows, even stripes, concatenations.

A map answers for one stack of devices. Data lies on one member, or on several where the stack
mirrors; parity is written beside it where the stack has any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd, lcm

from ext4audit.evidence import Undetermined, Unknown, Why
from ext4audit.facts.layout import StripeGeometry

Spot = tuple[int, int]
"""A leg of a layer, and the byte of that leg."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one device does with its bytes.

    `data` and `parity` give the spots of a byte, at most `spots` together. Bytes that are
    `period_bytes` apart lie on the same legs, `advance_bytes` further on each; None where that
    holds nowhere. `begins` tells for a concatenation which byte of the device each leg starts
    at; it is empty where every leg starts with the device.
    """

    data: Callable[[int], tuple[Spot, ...]]
    parity: Callable[[int], tuple[Spot, ...]]
    spots: int
    period_bytes: int | None
    advance_bytes: int
    begins: tuple[int, ...] = ()


def no_parity(_byte: int) -> tuple[Spot, ...]:
    """Return no spots: this layer writes nothing beside the data."""
    return ()


def mirrored(legs: int) -> Layer:
    """Every leg holds every byte; with one leg this is a plain window of a device."""

    def data(byte: int) -> tuple[Spot, ...]:
        return tuple((leg, byte) for leg in range(legs))

    return Layer(data, no_parity, legs, 1, 1)


def striped(legs: int, chunk_bytes: int) -> Layer:
    """Chunk k lies on leg k mod N (drivers/md/raid0.c, drivers/md/dm-stripe.c, 6.1)."""
    if legs < 1 or chunk_bytes < 1:
        raise ValueError(f"{legs} legs and chunks of {chunk_bytes} bytes")

    def data(byte: int) -> tuple[Spot]:
        chunk, inside = divmod(byte, chunk_bytes)
        stripe, leg = divmod(chunk, legs)
        return ((leg, stripe * chunk_bytes + inside),)

    return Layer(data, no_parity, 1, legs * chunk_bytes, chunk_bytes)


def concatenated(lengths_bytes: Sequence[int]) -> Layer:
    """One leg after the other; ValueError where a leg has no length."""
    if not lengths_bytes or min(lengths_bytes) < 1:
        raise ValueError(f"parts of {min(lengths_bytes, default=0)} bytes")
    ends = list(accumulate(lengths_bytes))
    begins = (0, *ends[:-1])

    def data(byte: int) -> tuple[Spot]:
        if byte >= ends[-1]:
            raise ValueError(f"byte {byte} is beyond {ends[-1]} bytes")
        leg = bisect_right(ends, byte)
        return ((leg, byte - begins[leg]),)

    return Layer(data, no_parity, 1, None, 0, begins)


WHAT = "the way of a byte to its member device"
MDSTAT = "see /proc/mdstat"
BY_HAND = "count by hand: dumpe2fs -g names the bitmaps' blocks"


@dataclass(frozen=True, slots=True)
class Stripes:
    """What a striping layer is called: md's level and layout number, and the chunk."""

    level: str
    chunk_bytes: int
    layout: int | None


@dataclass(frozen=True, slots=True)
class Split:
    """A layer and its legs: what each device below is called, and at which byte of it it starts.

    A device below is called by its name (md) or by its number, "8:0" (device mapper). `stripes`
    is None where nothing is striped.
    """

    layer: Layer
    legs: tuple[tuple[str, int], ...]
    stripes: Stripes | None = None


def untold(detail: str, hint: str = BY_HAND, why: Why = Why.UNSUPPORTED) -> Undetermined:
    """Make the exception for a way that cannot be told; a map of the stack is then a hole."""
    return Undetermined((Unknown(WHAT, why, detail, hint),))


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of a member device; `member` is an index into `StackMap.members`."""

    member: int
    byte: int


Find = Callable[[int], tuple[Place, ...]]


@dataclass(frozen=True, slots=True)
class StackMap:
    """The way of a filesystem's bytes to the member devices at the bottom of its stack.

    `data` gives all copies of a byte, `parity` the places that are written with it. Both raise
    ValueError for a byte beyond the device. `members` name the devices at the bottom, in slot
    order of the striping layer. `geometry` is the first layer that stripes on the way of the
    filesystem's first bytes, None where nothing stripes (one disk, a mirror, a concatenation).
    Its `members` are the devices at the bottom too: of nested stripes there are more than the
    chunks of one turn. With `period_bytes`, bytes that far apart lie on the same members (not
    at the same byte); None where that holds nowhere (zones, several segments), and 64 KiB where
    it holds for any distance.
    """

    members: tuple[str, ...]
    geometry: StripeGeometry | None
    data: Find
    parity: Find
    period_bytes: int | None


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
