"""How md arrays place bytes: RAID0, RAID10, RAID4, RAID5 and RAID6.

Zone 0 stripes over all members as far as the smallest reaches, zone 1 over those that reach
further, and so on. Every member is first rounded down to whole chunks.

Near copies fill a stripe side by side. Far copies lie in a second part of every member, offset
copies in the next stripe, both on the next member.

A layout says for each stripe which member holds P (and Q), and in which order the data chunks
take the others: "symmetric" ones begin after the parity and wrap round, "asymmetric" ones go
from the first member to the last. The numbers are `md/layout`'s (raid5.h, ALGORITHM_*).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from ext4audit.layout.byte_map import Layer, Spot, no_parity, striped
from ext4audit.layout.striping import PARITY_CHUNKS

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


NEAR_2 = 0x102
"""Two near copies: what mdadm makes unless told otherwise (mdadm(8), --layout)."""

_OFFSET_BIT = 1 << 16
_IN_SETS = 2 << 17
"""Far copies turn within sets of as many members as there are copies (raid10.c, setup_geo)."""


@dataclass(frozen=True, slots=True)
class Copies:
    """`md/layout` of a RAID10: near or far copies, whether far ones are offset ones, and sets."""

    members: int
    near: int
    far: int
    offset: bool
    set_members: int

    def moved(self, member: int) -> int:
        """Return the member of the next far copy; the last set takes what is left over."""
        last = (self.members // self.set_members - 1) * self.set_members
        first = min(member // self.set_members * self.set_members, last)
        size = self.members - last if first == last else self.set_members
        return first + (member + 1 - first) % size


def raid10(members: int, chunk_bytes: int, layout: int, member_bytes: int) -> Layer:
    """Return the layer of a RAID10; ValueError for a layout that no tool makes.

    `member_bytes` is how much of each member the array uses (`md/component_size`).
    """
    copies = _copies(members, layout)
    if not 0 < chunk_bytes <= member_bytes:
        raise ValueError(f"chunks of {chunk_bytes} bytes on members of {member_bytes}")
    stride_bytes = chunk_bytes if copies.offset else _stride(copies, chunk_bytes, member_bytes)
    common = gcd(members, copies.near)
    rows = copies.near // common * (copies.far if copies.offset else 1)
    return Layer(
        _finder(copies, chunk_bytes, stride_bytes),
        no_parity,
        copies.near * copies.far,
        members // common * chunk_bytes,
        rows * chunk_bytes,
    )


def _copies(members: int, layout: int) -> Copies:
    """Read the layout.

    Near and far copies at once are refused: mdadm makes no such array, and where the near ones
    run over the end of a row of offset copies, two chunks would lie at one place (6.1).
    """
    near, far = layout & 255, layout >> 8 & 255
    odd = layout & ~(0xFFFF | _OFFSET_BIT | _IN_SETS)
    if layout < 0 or odd or min(near, far) != 1 or max(near, far) > members:
        raise ValueError(f"layout {layout} of a RAID10 of {members}")
    set_members = far if layout & _IN_SETS else members
    return Copies(members, near, far, bool(layout & _OFFSET_BIT), set_members)


def _stride(copies: Copies, chunk_bytes: int, member_bytes: int) -> int:
    """Return how far apart far copies lie: as many chunks as one copy takes of a member."""
    return member_bytes // chunk_bytes // copies.far * chunk_bytes


def _finder(
    copies: Copies, chunk_bytes: int, stride_bytes: int
) -> Callable[[int], tuple[Spot, ...]]:
    between = copies.far if copies.offset else 1

    def data(byte: int) -> tuple[Spot, ...]:
        chunk, inside = divmod(byte, chunk_bytes)
        spots = []
        for copy in range(copies.near):
            row, member = divmod(chunk * copies.near + copy, copies.members)
            at = row * between * chunk_bytes + inside
            for _ in range(copies.far):
                spots.append((member, at))
                member, at = copies.moved(member), at + stride_bytes
        return tuple(spots)

    return data


LEFT_SYMMETRIC = 2
"""mdadm's default for RAID5 and RAID6 (mdadm(8), --layout)."""

MOST_ROWS_KEPT = 512

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""One stripe: the members of its data chunks in order, and those of its parity."""


@dataclass(frozen=True, slots=True)
class Order:
    """How a layout turns: `first` is P's member in stripe 0, `step` its move a stripe.

    `q_after` is where Q lies seen from P; None means on the last member, which then takes no
    part in the turning.
    """

    first: int
    step: int
    symmetric: bool
    q_after: int | None = 1


_LAST = -1
_PARITY_LAST = 5
_TURNING = {
    0: Order(_LAST, -1, symmetric=False),
    1: Order(0, 1, symmetric=False),
    2: Order(_LAST, -1, symmetric=True),
    3: Order(0, 1, symmetric=True),
    4: Order(0, 0, symmetric=False),
}
_RAID5 = {**_TURNING, _PARITY_LAST: Order(_LAST, 0, symmetric=False)}
_RAID6 = {
    **_TURNING,
    _PARITY_LAST: Order(-2, 0, symmetric=False),
    8: Order(0, 1, symmetric=False),
    9: Order(-2, -1, symmetric=False),
    10: Order(_LAST, -1, symmetric=True, q_after=-1),
    16: Order(_LAST, -1, symmetric=False, q_after=None),
    17: Order(0, 1, symmetric=False, q_after=None),
    18: Order(_LAST, -1, symmetric=True, q_after=None),
    19: Order(0, 1, symmetric=True, q_after=None),
    20: Order(0, 0, symmetric=False, q_after=None),
}


def raid456(level: str, members: int, chunk_bytes: int, layout: int) -> Layer:
    """Return the layer of an array with parity; ValueError for a layout that is not known.

    RAID4 keeps its parity on the last member whatever `layout` says.
    """
    parity = PARITY_CHUNKS[level]
    orders = _RAID6 if level == "raid6" else _RAID5
    order = orders.get(_PARITY_LAST if level == "raid4" else layout)
    if order is None or members <= parity or chunk_bytes < 1:
        raise ValueError(f"{level} of {members}, layout {layout}, chunks of {chunk_bytes} bytes")
    turning = members - 1 if parity > 1 and order.q_after is None else members
    stripes = turning if order.step else 1
    row_of = _rows(order, members, turning, parity)
    data_chunks = members - parity

    def data(byte: int) -> tuple[Spot]:
        chunk, inside = divmod(byte, chunk_bytes)
        stripe, index = divmod(chunk, data_chunks)
        return ((row_of(stripe % stripes)[0][index], stripe * chunk_bytes + inside),)

    def parity_of(byte: int) -> tuple[Spot, ...]:
        stripe, beside = divmod(byte, data_chunks * chunk_bytes)
        at = stripe * chunk_bytes + beside % chunk_bytes
        return tuple((member, at) for member in row_of(stripe % stripes)[1])

    period_bytes = stripes * data_chunks * chunk_bytes
    return Layer(data, parity_of, 1 + parity, period_bytes, stripes * chunk_bytes)


def _rows(order: Order, members: int, turning: int, parity: int) -> Callable[[int], Row]:
    @lru_cache(MOST_ROWS_KEPT)
    def row(stripe: int) -> Row:
        p = (order.first + order.step * stripe) % turning
        if parity == 1:
            kept: tuple[int, ...] = (p,)
        else:
            kept = (p, members - 1 if order.q_after is None else (p + order.q_after) % members)
        # The symmetric orders count on from the parity; only Q before P is not passed by it.
        begin = p + 1 if order.symmetric else 0
        turned = ((begin + step) % turning for step in range(turning))
        return tuple(member for member in turned if member not in kept), kept

    return row
