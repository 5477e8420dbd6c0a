"""md RAID10: near, far and offset copies (drivers/md/raid10.c 6.1; md(4), "RAID10").

Near copies fill a stripe side by side. Far copies lie in a second part of every member, offset
copies in the next stripe, both on the next member.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ext4audit.layout.layer import Layer, Spot, no_parity
from ext4audit.records import dataclass

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
