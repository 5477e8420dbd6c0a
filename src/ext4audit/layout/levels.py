"""RAID levels of Linux: how arrays place bytes, from md's layout numbers or a given geometry.

- RAID0: zones, in `layout/zones.py`.
- RAID10: near copies are adjacent in a stripe. Far copies are in a second part of every member,
  offset copies in the next stripe, both on the next member.
- RAID4, 5 and 6: for each stripe, the layout determines the member of P (and Q), and the order of
  the data chunks on the others: "symmetric" layouts begin after the parity and wrap around,
  "asymmetric" ones go from the first member to the last.

The layout numbers are those of `md/layout` (drivers/md/raid5.h, ALGORITHM_*; Linux 6.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.facts.devices import SECTOR_BYTES, MdArray, MdMember
from ext4audit.facts.layout import PARITY_MEMBERS, StripeComponent, StripeGeometry
from ext4audit.layout import LVM_STRIPES, STRIPING_LEVELS
from ext4audit.layout.byte_map import (
    MDSTAT,
    ByteMap,
    Component,
    Layer,
    Location,
    Split,
    StackMap,
    Stripes,
    as_map,
    concatenated,
    leaf_device,
    mirrored,
    no_parity,
    stacked,
    striped,
    unmappable,
)

NEAR_2 = 0x102
"""Two near copies: mdadm's default (mdadm(8), --layout)."""

_OFFSET_BIT = 1 << 16
_IN_SETS = 2 << 17
"""Far copies rotate within sets of as many members as there are copies (raid10.c, setup_geo)."""


class Copies(NamedTuple):
    """A RAID10 layout: the near and far copies, whether far ones are offset, and the set size."""

    members: int
    near: int
    far: int
    offset: bool
    set_members: int

    def moved(self, member: int) -> int:
        """Return the member of the next far copy; the last set includes any remaining members."""
        last = (self.members // self.set_members - 1) * self.set_members
        first = min(member // self.set_members * self.set_members, last)
        size = self.members - last if first == last else self.set_members
        return first + (member + 1 - first) % size


def raid10(members: int, chunk_bytes: int, layout: int, member_bytes: int) -> Layer:
    """Return the layer of a RAID10; raises ValueError for a layout that no tool makes.

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
        chunk_bytes,
    )


def _copies(members: int, layout: int) -> Copies:
    """Decode `md/layout`.

    Layouts with both near and far copies are refused: mdadm does not make them, and if near copies
    cross the end of a row of offset copies, two chunks would have the same location (6.1).
    """
    near, far = layout & 255, layout >> 8 & 255
    odd = layout & ~(0xFFFF | _OFFSET_BIT | _IN_SETS)
    if layout < 0 or odd or min(near, far) != 1 or max(near, far) > members:
        raise ValueError(f"layout {layout} of a RAID10 of {members}")
    set_members = far if layout & _IN_SETS else members
    return Copies(members, near, far, bool(layout & _OFFSET_BIT), set_members)


def _stride(copies: Copies, chunk_bytes: int, member_bytes: int) -> int:
    """Return the distance of far copies in bytes: the whole chunks of a member for one copy."""
    return member_bytes // chunk_bytes // copies.far * chunk_bytes


def _finder(
    copies: Copies, chunk_bytes: int, stride_bytes: int
) -> Callable[[int], tuple[Location, ...]]:
    between = copies.far if copies.offset else 1

    def data(byte: int) -> tuple[Location, ...]:
        chunk, inside = divmod(byte, chunk_bytes)
        locations = []
        for copy in range(copies.near):
            row, member = divmod(chunk * copies.near + copy, copies.members)
            at = row * between * chunk_bytes + inside
            for _ in range(copies.far):
                locations.append((member, at))
                member, at = copies.moved(member), at + stride_bytes
        return tuple(locations)

    return data


LEFT_SYMMETRIC = 2
"""mdadm's default for RAID5 and RAID6 (mdadm(8), --layout)."""

MOST_ROWS_KEPT = 512

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""One stripe: the members of its data chunks in order, and the members of its parity."""


class Rotation(NamedTuple):
    """How a layout rotates: `first` is P's member in stripe 0, `step` its shift per stripe.

    `q_after` is the distance of Q from P; None means that Q is always on the last member.
    """

    first: int
    step: int
    symmetric: bool
    q_after: int | None = 1


_LAST = -1
_PARITY_LAST = 5
_ROTATING = {
    0: Rotation(_LAST, -1, symmetric=False),
    1: Rotation(0, 1, symmetric=False),
    2: Rotation(_LAST, -1, symmetric=True),
    3: Rotation(0, 1, symmetric=True),
    4: Rotation(0, 0, symmetric=False),
}
_RAID5 = {**_ROTATING, _PARITY_LAST: Rotation(_LAST, 0, symmetric=False)}
_RAID6 = {
    **_ROTATING,
    _PARITY_LAST: Rotation(-2, 0, symmetric=False),
    8: Rotation(0, 1, symmetric=False),
    9: Rotation(-2, -1, symmetric=False),
    10: Rotation(_LAST, -1, symmetric=True, q_after=-1),
    16: Rotation(_LAST, -1, symmetric=False, q_after=None),
    17: Rotation(0, 1, symmetric=False, q_after=None),
    18: Rotation(_LAST, -1, symmetric=True, q_after=None),
    19: Rotation(0, 1, symmetric=True, q_after=None),
    20: Rotation(0, 0, symmetric=False, q_after=None),
}


def raid456(level: str, members: int, chunk_bytes: int, layout: int) -> Layer:
    """Return the layer of an array with parity; raises ValueError for an unknown layout.

    RAID4 has its parity on the last member; its `layout` is ignored.
    """
    parity = PARITY_MEMBERS[level]
    rotations = _RAID6 if level == "raid6" else _RAID5
    rotation = rotations.get(_PARITY_LAST if level == "raid4" else layout)
    if rotation is None or members <= parity or chunk_bytes < 1:
        raise ValueError(f"{level} of {members}, layout {layout}, chunks of {chunk_bytes} bytes")
    rotating = members - 1 if parity > 1 and rotation.q_after is None else members
    stripes = rotating if rotation.step else 1
    row_of = _rows(rotation, members, rotating, parity)
    data_chunks = members - parity

    def data(byte: int) -> tuple[Location]:
        chunk, inside = divmod(byte, chunk_bytes)
        stripe, index = divmod(chunk, data_chunks)
        return ((row_of(stripe % stripes)[0][index], stripe * chunk_bytes + inside),)

    def parity_of(byte: int) -> tuple[Location, ...]:
        stripe, beside = divmod(byte, data_chunks * chunk_bytes)
        at = stripe * chunk_bytes + beside % chunk_bytes
        return tuple((member, at) for member in row_of(stripe % stripes)[1])

    period_bytes = stripes * data_chunks * chunk_bytes
    return Layer(data, parity_of, 1 + parity, period_bytes, stripes * chunk_bytes, chunk_bytes)


def _rows(rotation: Rotation, members: int, rotating: int, parity: int) -> Callable[[int], Row]:
    @lru_cache(MOST_ROWS_KEPT)
    def row(stripe: int) -> Row:
        p = (rotation.first + rotation.step * stripe) % rotating
        if parity == 1:
            kept: tuple[int, ...] = (p,)
        else:
            kept = (
                p,
                members - 1 if rotation.q_after is None else (p + rotation.q_after) % members,
            )
        # Symmetric layouts number the data from P on; P and Q themselves are skipped.
        begin = p if rotation.symmetric else 0
        rotated = ((begin + step) % rotating for step in range(rotating))
        return tuple(member for member in rotated if member not in kept), kept

    return row


NO_LAYOUT = -1
"""The value of `md/layout` if no layout is set, as for every RAID0 of equal members."""
LAYOUT_IS_NOT_OF_STRIPES = ("raid0", "raid4")
"""Levels whose layout does not affect stripes: RAID0's is about zones, RAID4's parity is fixed."""
ORDER_HINT = "set the layout with mdadm --update"
"""`mdadm --assemble --update=layout-original` or `layout-alternate` stores it (md(4))."""
UNLIMITED_BYTES = 1 << 60
"""The size of members if none is given: larger than any filesystem."""


def layer_of(
    level: str, chunk_bytes: int, layout: int | None, member_bytes: Sequence[int]
) -> Layer:
    """Return the layer of an array; a layout of None is mdadm's default.

    `member_bytes` is how much of each member the array may use. Raises ValueError for a level, a
    layout or sizes that are not possible.
    """
    members = len(member_bytes)
    if not members:
        raise ValueError(f"{level} of no members")
    if level in {"raid0", LVM_STRIPES}:
        return _raid0(member_bytes, chunk_bytes, layout)
    if level == "linear":
        return concatenated(_rounded(member_bytes, chunk_bytes))
    if level == "raid1":
        return mirrored(members)
    if level == "raid10":
        chosen = NEAR_2 if layout is None else layout
        return raid10(members, chunk_bytes, chosen, min(member_bytes))
    if level in PARITY_MEMBERS:
        chosen = LEFT_SYMMETRIC if layout is None else layout
        return raid456(level, members, chunk_bytes, chosen)
    raise ValueError(f"the level is {level!r}")


def _raid0(member_bytes: Sequence[int], chunk_bytes: int, layout: int | None) -> Layer:
    """Return the layer of a RAID0; only arrays of unequal members have zones."""
    if len(set(member_bytes)) == 1 and 0 < chunk_bytes <= member_bytes[0]:
        return striped(len(member_bytes), chunk_bytes)
    zoned: Layer = lazily("layout.zones", "raid0")(member_bytes, chunk_bytes, layout)
    return zoned


def _rounded(member_bytes: Sequence[int], chunk_bytes: int) -> list[int]:
    """Round sizes down to whole chunks if a chunk size is set (drivers/md/md-linear.c, 6.1)."""
    unit = max(chunk_bytes, 1)
    return [size // unit * unit for size in member_bytes]


def map_of(geometry: StripeGeometry, member_bytes: int | None = None) -> StackMap:
    """Return the map of a filesystem on one array; zones come from the geometry.

    `member_bytes` is how much of each of equal members the array uses. A concatenation needs it.
    Without it the far copies of a RAID10 are on the right member, but not at the right byte.
    Raises ValueError for a level, a layout or numbers that are not possible, and for components
    that the geometry does not describe.
    """
    if not geometry.is_described:
        raise ValueError("the arrays below it differ")
    array = _array_map(geometry, geometry.members.index, member_bytes)
    byte_map = stacked(mirrored(1), [(array, geometry.offset_bytes)], None)
    return as_map(byte_map._replace(geometry=geometry), geometry.members)


def _array_map(
    geometry: StripeGeometry, slot_of: Callable[[str], int], member_bytes: int | None
) -> ByteMap:
    below = geometry.components or tuple((name,) for name in geometry.members)
    if geometry.level == "linear" and member_bytes is None:
        raise ValueError("where the members of a concatenation end depends on their size")
    equal = [UNLIMITED_BYTES if member_bytes is None else member_bytes] * len(below)
    sizes = geometry.member_bytes or equal
    layer = layer_of(geometry.level, geometry.chunk_bytes, geometry.layout, sizes)
    return stacked(layer, [_component(each, slot_of, member_bytes) for each in below], None)


def _component(
    each: StripeComponent, slot_of: Callable[[str], int], member_bytes: int | None
) -> Component:
    if isinstance(each, StripeGeometry):
        return _array_map(each, slot_of, None), each.offset_bytes
    copies = [(leaf_device(slot_of(name), member_bytes), 0) for name in each]
    return stacked(mirrored(len(copies)), copies, None), 0


def split_md(name: str, array: MdArray) -> Split:
    """Return how an array splits; raises Undetermined, with a hint, if that is not known."""
    if array.reshape_position is not None:
        raise unmappable(f"{name} is being reshaped", "scan again after the reshape")
    members = sorted(array.members, key=lambda member: member.slot)
    _refuse_missing(name, array, members)
    layout = None if array.layout == NO_LAYOUT else array.layout
    used_bytes = _used_bytes(array, members)
    try:
        layer = layer_of(array.level, array.chunk_bytes, layout, used_bytes)
    except ValueError as error:
        unset = array.level == "raid0" and array.chunk_bytes > 0
        raise unmappable(f"{name}: {error}", ORDER_HINT if unset else MDSTAT) from error
    components = tuple((each.name, each.data_offset_sectors * SECTOR_BYTES) for each in members)
    zoned_bytes = used_bytes if array.level == "raid0" and layer.period_bytes is None else ()
    has_layout = array.level not in LAYOUT_IS_NOT_OF_STRIPES or zoned_bytes
    stripes = Stripes(
        array.level, array.chunk_bytes, layout if has_layout else None, tuple(zoned_bytes)
    )
    return Split(layer, components, stripes if array.level in STRIPING_LEVELS else None)


def _refuse_missing(name: str, array: MdArray, members: Iterable[MdMember]) -> None:
    """Refuse an array with a missing member, except a mirror: any member has all data."""
    slots = [member.slot for member in members]
    if array.level == "raid1" and slots and len(set(slots)) == len(slots):
        return
    # A slot occurs twice while mdadm --replace copies a member to its replacement.
    if array.raid_disks != len(slots) or slots != list(range(len(slots))):
        seen = f"{len(slots)} of {array.raid_disks} members are seen, in slots {slots[:32]}"
        raise unmappable(f"{name}: {seen}", MDSTAT)


def _used_bytes(array: MdArray, members: Iterable[MdMember]) -> list[int]:
    """Return how many bytes the array uses of each member.

    Levels with copies use the size of the smallest member of each, or less with `mdadm --size`.
    Far copies begin where the first copies end, so their place depends on `md/component_size`.
    """
    if array.level == "raid10" and array.component_sectors is not None:
        return [array.component_sectors * SECTOR_BYTES for _ in members]
    return [member.size_sectors * SECTOR_BYTES for member in members]
