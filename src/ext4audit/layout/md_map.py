"""How an md array splits its bytes (Documentation/admin-guide/md.rst, md(4))."""

from __future__ import annotations

from collections.abc import Iterable

from ext4audit.facts.block import SECTOR_BYTES, MdArray, MdMember
from ext4audit.layout.levels import layer_of
from ext4audit.layout.may_stripe import STRIPING_LEVELS
from ext4audit.layout.split import MDSTAT, Split, Stripes, untold

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
