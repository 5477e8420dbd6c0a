"""RAID levels of Linux: the layer of each level, of an md array, and of a given geometry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ext4audit.facts.devices import SECTOR_BYTES, MdArray, MdMember
from ext4audit.facts.layout import PARITY_MEMBERS, StripeGeometry
from ext4audit.layout import LVM_STRIPES, STRIPING_LEVELS
from ext4audit.layout.byte_map import (
    MDSTAT,
    Layer,
    Split,
    StackMap,
    Stripes,
    as_map,
    concatenated,
    leaf_device,
    mirrored,
    stacked,
    unmappable,
)
from ext4audit.layout.md import LEFT_SYMMETRIC, NEAR_2, raid0, raid10, raid456

NO_LAYOUT = -1
"""The value of `md/layout` where no layout is set, as for every RAID0 of equal members."""
ORDER_HINT = "set the layout with mdadm --update"
"""`mdadm --assemble --update=layout-original` or `layout-alternate` sets it for good (md(4))."""
UNLIMITED_BYTES = 1 << 60
"""The size of members where none is given: more than any filesystem fills."""


def layer_of(
    level: str, chunk_bytes: int, layout: int | None, member_bytes: Sequence[int]
) -> Layer:
    """Return the layer of an array; a layout of None is mdadm's default.

    `member_bytes` is how much of each member the array may use. ValueError for a level, a layout or
    sizes of which no array can be made.
    """
    members = len(member_bytes)
    if not members:
        raise ValueError(f"{level} of no members")
    if level in {"raid0", LVM_STRIPES}:
        return raid0(member_bytes, chunk_bytes, layout)
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


def _rounded(member_bytes: Sequence[int], chunk_bytes: int) -> list[int]:
    """Round to whole chunks where a concatenation has any (drivers/md/md-linear.c, 6.1)."""
    unit = max(chunk_bytes, 1)
    return [size // unit * unit for size in member_bytes]


def map_of(geometry: StripeGeometry, member_bytes: int | None = None) -> StackMap:
    """Return the map of a filesystem on one array of equal members.

    `member_bytes` is how much of each member the array uses. A concatenation needs it. Without it
    the far copies of a RAID10 are on the right member, at a byte that is not the real one.
    ValueError for a level, a layout or numbers of which no array can be made.
    """
    count = len(geometry.members)
    if geometry.level == "linear" and member_bytes is None:
        raise ValueError("where the members of a concatenation end depends on their size")
    sizes = [UNLIMITED_BYTES if member_bytes is None else member_bytes] * count
    layer = layer_of(geometry.level, geometry.chunk_bytes, geometry.layout, sizes)
    array = stacked(layer, [(leaf_device(slot, member_bytes), 0) for slot in range(count)], None)
    byte_map = stacked(mirrored(1), [(array, geometry.offset_bytes)], None)
    return as_map(byte_map._replace(geometry=geometry), geometry.members)


def split_md(name: str, array: MdArray) -> Split:
    """Return how an array splits; Undetermined, with a hint, where that is not known."""
    if array.reshape_position is not None:
        raise unmappable(f"{name} is being reshaped", "scan again after the reshape")
    members = sorted(array.members, key=lambda member: member.slot)
    _refuse_missing(name, array, members)
    layout = None if array.layout == NO_LAYOUT else array.layout
    try:
        layer = layer_of(array.level, array.chunk_bytes, layout, _used_bytes(array, members))
    except ValueError as error:
        unset = array.level == "raid0" and array.chunk_bytes > 0
        raise unmappable(f"{name}: {error}", ORDER_HINT if unset else MDSTAT) from error
    components = tuple((each.name, each.data_offset_sectors * SECTOR_BYTES) for each in members)
    stripes = Stripes(array.level, array.chunk_bytes, _layout_of(array))
    return Split(layer, components, stripes if array.level in STRIPING_LEVELS else None)


def _layout_of(array: MdArray) -> int | None:
    """Return the layout number where it means something."""
    return None if array.layout == NO_LAYOUT or array.level in {"raid0", "raid4"} else array.layout


def _refuse_missing(name: str, array: MdArray, members: Iterable[MdMember]) -> None:
    """Refuse an array with a missing member; any member of a mirror shows all."""
    slots = [member.slot for member in members]
    if array.level == "raid1" and slots and len(set(slots)) == len(slots):
        return
    # Twice the same slot: mdadm --replace is copying a member to its successor.
    if array.raid_disks != len(slots) or slots != list(range(len(slots))):
        seen = f"{len(slots)} of {array.raid_disks} members are seen, in slots {slots[:32]}"
        raise unmappable(f"{name}: {seen}", MDSTAT)


def _used_bytes(array: MdArray, members: Iterable[MdMember]) -> list[int]:
    """Return what the array uses of each member.

    Levels with copies use as much of all as of the smallest, or less by `mdadm --size`. Far
    copies begin where the first ones end, so only `md/component_size` determines where.
    """
    if array.level == "raid10" and array.component_sectors is not None:
        return [array.component_sectors * SECTOR_BYTES for _ in members]
    return [member.size_sectors * SECTOR_BYTES for member in members]
