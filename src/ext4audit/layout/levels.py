"""The RAID levels of Linux: which of them stripe, and the layer that each one is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ext4audit.facts.devices import SECTOR_BYTES, MdArray, MdMember
from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.byte_map import (
    MDSTAT,
    Layer,
    Split,
    StackMap,
    Stripes,
    as_map,
    bottom,
    concatenated,
    mirrored,
    through,
    untold,
)
from ext4audit.layout.md import LEFT_SYMMETRIC, NEAR_2, raid0, raid10, raid456
from ext4audit.layout.striping import LVM_STRIPES, PARITY_CHUNKS, STRIPING_LEVELS


def layer_of(
    level: str, chunk_bytes: int, layout: int | None, member_bytes: Sequence[int]
) -> Layer:
    """Return the layer of an array; a layout of None is mdadm's default.

    `member_bytes` is what the array may use of each member. ValueError for a level, a layout or
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
    if level in PARITY_CHUNKS:
        chosen = LEFT_SYMMETRIC if layout is None else layout
        return raid456(level, members, chunk_bytes, chosen)
    raise ValueError(f"the level is {level!r}")


def _rounded(member_bytes: Sequence[int], chunk_bytes: int) -> list[int]:
    """Round to whole chunks where a concatenation has any (drivers/md/md-linear.c, 6.1)."""
    unit = max(chunk_bytes, 1)
    return [size // unit * unit for size in member_bytes]


NO_LAYOUT = -1
"""What sysfs shows where no layout is set, as for every RAID0 of equal members."""

ORDER_HINT = "see /sys/module/raid0/parameters/default_layout, and set it by mdadm --update"
"""`mdadm --assemble --update=layout-original` or `layout-alternate` sets it for good (md(4))."""


def split_md(name: str, array: MdArray) -> Split:
    """Return how an array splits; Undetermined, with a hint, where that cannot be told."""
    if array.reshape_position is not None:
        raise untold(f"{name} is being reshaped", "scan again after the reshape")
    members = sorted(array.members, key=lambda member: member.slot)
    _refuse_missing(name, array, members)
    layout = None if array.layout == NO_LAYOUT else array.layout
    try:
        layer = layer_of(array.level, array.chunk_bytes, layout, _used_bytes(array, members))
    except ValueError as error:
        unset = array.level == "raid0" and array.chunk_bytes > 0
        raise untold(f"{name}: {error}", ORDER_HINT if unset else MDSTAT) from error
    legs = tuple((each.name, each.data_offset_sectors * SECTOR_BYTES) for each in members)
    stripes = Stripes(array.level, array.chunk_bytes, _layout_of(array))
    return Split(layer, legs, stripes if array.level in STRIPING_LEVELS else None)


def _layout_of(array: MdArray) -> int | None:
    """Return the layout number where it means something."""
    return None if array.layout == NO_LAYOUT or array.level in {"raid0", "raid4"} else array.layout


def _refuse_missing(name: str, array: MdArray, members: Iterable[MdMember]) -> None:
    """Refuse an array of which a member is not seen; a mirror shows all with any of them."""
    slots = [member.slot for member in members]
    if array.level == "raid1" and slots and len(set(slots)) == len(slots):
        return
    # Twice the same slot: mdadm --replace is copying a member to its successor.
    if array.raid_disks != len(slots) or slots != list(range(len(slots))):
        seen = f"{len(slots)} of {array.raid_disks} members are seen, in slots {slots[:32]}"
        raise untold(f"{name}: {seen}", MDSTAT)


def _used_bytes(array: MdArray, members: Iterable[MdMember]) -> list[int]:
    """Return what the array uses of each member.

    Levels with copies use as much of all as of the smallest, or less by `mdadm --size`. Far
    copies begin where the first ones end, so that only `md/component_size` tells where.
    """
    if array.level == "raid10" and array.component_sectors is not None:
        return [array.component_sectors * SECTOR_BYTES for _ in members]
    return [member.size_sectors * SECTOR_BYTES for member in members]


FAR_AWAY_BYTES = 1 << 60
"""Members of a size that nobody told: more than any filesystem fills."""


def map_of(geometry: StripeGeometry, member_bytes: int | None = None) -> StackMap:
    """Return the map of a filesystem on one array of equal members.

    `member_bytes` is what the array uses of each member; a concatenation cannot do without it,
    and without it the far copies of a RAID10 name the right member and no real byte of it.
    ValueError for a level, a layout or numbers of which no array can be made.
    """
    count = len(geometry.members)
    if geometry.level == "linear" and member_bytes is None:
        raise ValueError("where the members of a concatenation end depends on their size")
    sizes = [FAR_AWAY_BYTES if member_bytes is None else member_bytes] * count
    layer = layer_of(geometry.level, geometry.chunk_bytes, geometry.layout, sizes)
    array = through(layer, [(bottom(slot, member_bytes), 0) for slot in range(count)], None)
    way = through(mirrored(1), [(array, geometry.offset_bytes)], None)
    return as_map(replace(way, geometry=geometry), geometry.members)
