"""Where a byte of a filesystem lies: on which member device, and at which byte of it.

A map answers for one stack of devices. Data lies on one member, or on several where the stack
mirrors; parity is written beside it where the stack has any.
"""

from __future__ import annotations

from collections.abc import Callable

from ext4audit.facts.layout import StripeGeometry
from ext4audit.records import dataclass


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
