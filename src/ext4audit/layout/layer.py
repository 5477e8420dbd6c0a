"""What one device of a stack does with its bytes: which of its legs hold them, and where.

The simple ones are here: mirrors, windows, even stripes, concatenations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from ext4audit.records import dataclass

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
