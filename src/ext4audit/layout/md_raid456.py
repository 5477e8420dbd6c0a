"""md RAID4, RAID5 and RAID6: where data and parity of a stripe lie (drivers/md/raid5.c, 6.1).

A layout says for each stripe which member holds P (and Q), and in which order the data chunks
take the others: "symmetric" ones begin after the parity and wrap round, "asymmetric" ones go
from the first member to the last. The numbers are `md/layout`'s (raid5.h, ALGORITHM_*).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ext4audit.layout.layer import Layer, Spot
from ext4audit.records import dataclass

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
PARITY_CHUNKS = {"raid4": 1, "raid5": 1, "raid6": 2}


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
