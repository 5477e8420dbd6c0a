"""Byte maps: which component of each layer, and finally which leaf device, holds a byte.

`Layer` is the mapping of one device to its components; this module has the simple layers: mirrors,
windows, even stripes, concatenations. `ByteMap` is a device with all layers below it, and
`StackMap` is the byte map of a filesystem's device with the names of the leaf devices.

Data is on one member, or on several if the stack mirrors. Parity, if any, is written with it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from math import gcd, lcm
from typing import NamedTuple

from ext4audit.evidence import Undetermined, Unknown, Why
from ext4audit.facts.layout import StripeGeometry

WHAT = "mapping of bytes to member devices"
MDSTAT = "see /proc/mdstat"
BY_HAND = "count the blocks that dumpe2fs -g prints"

MOST_PLACES = 4096
"""The most copies of a byte in a valid map: if mirrors of one device are stacked on each other, the
copies double with every layer, and a lookup would never end."""

ANY_PERIOD_BYTES = 64 << 10
"""The period if all bytes are on the same members, so that any distance is a period. It is a
multiple of every block size of ext4."""

Location = tuple[int, int]
"""A component of a layer by index, and a byte of that component."""


class Layer(NamedTuple):
    """The mapping of the bytes of one device to its components.

    `data` and `parity` return the locations of a byte, at most `max_locations` in total. Bytes
    that are `period_bytes` apart are on the same components, `advance_bytes` further on each;
    it is None if there is no period. Aligned runs of `run_bytes` are contiguous on one component;
    0 means that all bytes are. `begins_bytes` has, for a concatenation, the byte of the device at
    which each component starts; it is empty if all components start at byte 0.
    """

    data: Callable[[int], tuple[Location, ...]]
    parity: Callable[[int], tuple[Location, ...]]
    max_locations: int
    period_bytes: int | None
    advance_bytes: int
    run_bytes: int
    begins_bytes: tuple[int, ...] = ()


def no_parity(_byte: int) -> tuple[()]:
    """Return no locations (or places), for layers without parity."""
    return ()


def mirrored(components: int) -> Layer:
    """Return the layer of a mirror; with one component it is a window of a device."""

    def data(byte: int) -> tuple[Location, ...]:
        return tuple((component, byte) for component in range(components))

    return Layer(data, no_parity, components, 1, 1, 0)


def striped(components: int, chunk_bytes: int) -> Layer:
    """Put chunk k on component k mod N (drivers/md/raid0.c, drivers/md/dm-stripe.c, 6.1)."""
    if components < 1 or chunk_bytes < 1:
        raise ValueError(f"{components} components and chunks of {chunk_bytes} bytes")

    def data(byte: int) -> tuple[Location]:
        chunk, inside = divmod(byte, chunk_bytes)
        stripe, component = divmod(chunk, components)
        return ((component, stripe * chunk_bytes + inside),)

    return Layer(data, no_parity, 1, components * chunk_bytes, chunk_bytes, chunk_bytes)


def concatenated(lengths_bytes: Sequence[int]) -> Layer:
    """Return the layer of a concatenation; raises ValueError if a component is empty."""
    if not lengths_bytes or min(lengths_bytes) < 1:
        raise ValueError(f"parts of {min(lengths_bytes, default=0)} bytes")
    ends = list(accumulate(lengths_bytes))
    begins = (0, *ends[:-1])

    def data(byte: int) -> tuple[Location]:
        if byte >= ends[-1]:
            raise ValueError(f"byte {byte} is beyond {ends[-1]} bytes")
        component = bisect_right(ends, byte)
        return ((component, byte - begins[component]),)

    return Layer(data, no_parity, 1, None, 0, gcd(*lengths_bytes), begins)


class Stripes(NamedTuple):
    """A striping layer in md's terms: level, chunk, layout number, and sizes of unequal members.

    `zoned_bytes` is how much of each member is used, empty if all are equal.
    """

    level: str
    chunk_bytes: int
    layout: int | None
    zoned_bytes: tuple[int, ...] = ()


class Split(NamedTuple):
    """A layer and its components: the name of each, and the byte at which its data starts.

    A component is named by its device name (md) or device number, "8:0" (device mapper).
    `stripes` is None if nothing is striped.
    """

    layer: Layer
    components: tuple[tuple[str, int], ...]
    stripes: Stripes | None = None


def unmappable(detail: str, hint: str = BY_HAND, why: Why = Why.UNSUPPORTED) -> Undetermined:
    """Return the exception for a byte with an unknown place, which makes the map unknown."""
    return Undetermined((Unknown(WHAT, why, detail, hint),))


class Place(NamedTuple):
    """A byte of a member device; `member` is an index into `StackMap.members`."""

    member: int
    byte: int


Find = Callable[[int], tuple[Place, ...]]


MOST_KEPT_PLACES = 1 << 13
"""The most bytes whose places are kept: advice asks for the chunks of one period many times."""


class StackMap(NamedTuple):
    """Where the bytes of a filesystem are on the leaf devices of its stack.

    `data` returns all copies of a byte, `parity` the parity bytes that are written with it. Both
    raise ValueError for a byte beyond the device. `members` are the names of the leaf devices, in
    slot order of the striping layer.

    `geometry` is the first layer that stripes below the filesystem's first bytes, None if nothing
    stripes (one disk, a mirror, a concatenation). Its `members` are leaf devices too: nested
    stripes have more of them than chunks in a stripe.

    Bytes that are `period_bytes` apart are on the same members (not at the same byte). It is None
    if there is no period (zones, several segments), and 64 KiB if any distance is a period.
    Aligned runs of `run_bytes` are on the same members; 0 means that all bytes are.
    """

    members: tuple[str, ...]
    geometry: StripeGeometry | None
    data: Find
    parity: Find
    period_bytes: int | None
    run_bytes: int = 0


class ByteMap(NamedTuple):
    """A device with all layers below it: the places of its bytes on the leaf devices.

    `leaves` are the indices of the leaf devices in slot order; `places` is the most places that
    one byte has; `geometry` is the first layer that stripes.
    """

    data: Find
    parity: Find
    leaves: tuple[int, ...]
    places: int
    period_bytes: int | None
    geometry: StripeGeometry | None
    run_bytes: int = 0


Component = tuple[ByteMap, int]
"""A device below, and the byte of it at which the layer's data starts."""


def leaf_device(member: int, size_bytes: int | None) -> ByteMap:
    """Return the byte map of a leaf device; `size_bytes` is None if the size is not known."""

    def data(byte: int) -> tuple[Place, ...]:
        _refuse_outside(byte, size_bytes)
        return (Place(member, byte),)

    return ByteMap(data, no_parity, (member,), 1, 1, None)


def stacked(layer: Layer, components: Sequence[Component], size_bytes: int | None) -> ByteMap:
    """Combine a layer with the byte maps of its components.

    `size_bytes` is the size of the device, if known. Raises ValueError if a component starts before
    its device, or if bytes have too many places.
    """
    maps = [below for below, _ in components]
    starts = [start for _, start in components]
    places = layer.max_locations * max(below.places for below in maps)
    if min(starts) < 0 or places > MOST_PLACES:
        raise ValueError(f"a component at byte {min(starts)}, a byte in {places} places")

    def data(byte: int) -> tuple[Place, ...]:
        _refuse_outside(byte, size_bytes)
        found = layer.data(byte)
        return tuple(place for i, at in found for place in maps[i].data(starts[i] + at))

    def parity(byte: int) -> tuple[Place, ...]:
        _refuse_outside(byte, size_bytes)
        own = layer.parity(byte)
        beside = (place for i, at in own for place in maps[i].data(starts[i] + at))
        # An array below treats parity like data: it adds its own parity to both.
        below = (
            place for i, at in (*layer.data(byte), *own) for place in maps[i].parity(starts[i] + at)
        )
        return (*beside, *below)

    leaves = tuple(dict.fromkeys(leaf for below in maps for leaf in below.leaves))
    geometry = _geometry(layer, components)
    run_bytes = gcd(layer.run_bytes, *map(_run_bytes, components))
    return ByteMap(data, parity, leaves, places, _period(layer, maps), geometry, run_bytes)


def as_map(byte_map: ByteMap, members: tuple[str, ...]) -> StackMap:
    """Return the stack map of a device; `members` are the names of its leaf devices."""
    period_bytes = ANY_PERIOD_BYTES if byte_map.period_bytes == 1 else byte_map.period_bytes
    data, parity = map(lru_cache(MOST_KEPT_PLACES), (byte_map.data, byte_map.parity))
    return StackMap(members, byte_map.geometry, data, parity, period_bytes, byte_map.run_bytes)


def _refuse_outside(byte: int, size_bytes: int | None) -> None:
    if byte < 0 or (size_bytes is not None and byte >= size_bytes):
        raise ValueError(f"byte {byte} is beyond the device of {size_bytes} bytes")


def _period(layer: Layer, maps: Sequence[ByteMap]) -> int | None:
    """Return the number of bytes after which all members below repeat, None if they do not."""
    periods = [below.period_bytes for below in maps if below.period_bytes is not None]
    if layer.period_bytes is None or len(periods) < len(maps):
        return None
    repeats = (period // gcd(period, layer.advance_bytes) for period in periods)
    return layer.period_bytes * lcm(*repeats)


def _run_bytes(component: Component) -> int:
    """Return the length of a component's aligned runs, relative to the start of its data."""
    below, start = component
    return gcd(below.run_bytes, start) if below.run_bytes else 0


def _geometry(layer: Layer, components: Sequence[Component]) -> StripeGeometry | None:
    """Return the geometry of the first striped component, with the offset of this device."""
    for number, (below, start) in enumerate(components):
        if below.geometry is not None:
            begin = layer.begins_bytes[number] if layer.begins_bytes else 0
            return _moved(below.geometry, start - begin)
    return None


def _moved(geometry: StripeGeometry, bytes_further: int) -> StripeGeometry:
    offset_bytes = geometry.offset_bytes + bytes_further
    if offset_bytes < 0:  # a later part of a concatenation: only the offset in the stripe matters
        offset_bytes %= geometry.chunk_bytes * len(geometry.members)
    return geometry._replace(offset_bytes=offset_bytes)
