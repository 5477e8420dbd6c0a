"""RAID levels of Linux, and whether a stack stripes at all.

md, device mapper and most RAID controllers report the chunk as `minimum_io_size` and a whole
stripe of data as `optimal_io_size` (Documentation/ABI/stable/sysfs-block); partitions, LVM and
LUKS hand both on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ext4audit.evidence import Known, Unknown, value_or
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment, MdArray, MdMember
from ext4audit.facts.layout import PARITY_MEMBERS, StripeGeometry
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

LVM_STRIPES = "dm-striped"
"""The level of LVM's stripes in a geometry (targets "striped" and "raid raid0"). It is not
"raid0", because mdadm can grow a RAID0 of md and cannot grow these."""
STRIPING_LEVELS = frozenset({"raid0", "raid10", "raid4", "raid5", "raid6", LVM_STRIPES})
"""The levels of md that stripe, and LVM's stripes."""
PARITY_CHUNKS = {"raid4": 1, "raid5": 1, "raid6": 2}
"""Chunks of parity in each stripe, by level."""
MOST_COLUMNS = 256
"""The most columns of any controller; disks behind USB bridges report 65535 sectors as optimal."""


def may_stripe(stack: BlockDevice) -> bool:
    """Whether the bytes of a device may be spread over several members in chunks.

    False where nothing below stripes, whatever else is not known: a thin pool on one disk, a
    mirror, a file behind a loop device. A device-mapper device over one device cannot stripe
    even when its table is unreadable: otherwise every laptop with LVM would be undetermined for
    an ordinary user.
    """
    if is_leaf_device(stack):
        return False
    if isinstance(stack.below, Unknown):
        return True
    return _splits(stack) or any(may_stripe(device) for device in stack.below.value)


def is_leaf_device(device: BlockDevice) -> bool:
    """Whether a device is a leaf whatever lies below it: a loop device, a multipath device."""
    if device.loop is not None:
        return True
    # Every user can read this prefix of libmultipath; only root can read the table.
    return device.dm is not None and device.dm.uuid.startswith("mpath-")


def guess_geometry(stack: BlockDevice) -> StripeGeometry | None:
    """Return the stripe that the I/O sizes of a device suggest, None where they suggest none.

    The members are called "column 0" and so on. The guess is only likely: a controller's RAID5
    looks like a RAID0 of its data disks, and its RAID10 like a RAID0 of half of them. Where one
    md array is in the stack its level is known, and so the number of members.
    """
    limits = stack.queue
    chunk_bytes = value_or(limits.minimum_io_bytes, 0)
    # A single disk reports its physical block here.
    if chunk_bytes <= max(value_or(limits.physical_block_bytes, 0), SECTOR_BYTES):
        return None
    columns, rest = divmod(value_or(limits.optimal_io_bytes, 0), chunk_bytes)
    if rest or not 1 < columns <= MOST_COLUMNS:
        return None
    return _geometry(stack, chunk_bytes, columns)


def _splits(device: BlockDevice) -> bool:
    """Whether this device itself stripes, or may do so where its table cannot be read."""
    if device.md is not None:
        if isinstance(device.md, Unknown):
            return True
        array = device.md.value
        return array.level in STRIPING_LEVELS and array.raid_disks > 1
    if device.dm is None:
        return False
    if isinstance(device.dm.table, Unknown):
        return len(device.known_below) > 1
    return any(_is_striped(segment) for segment in device.dm.table.value)


def _is_striped(segment: DmSegment) -> bool:
    if segment.target == "striped":
        return segment.arguments[:1] != ("1",)
    return segment.target == "raid" and segment.arguments[:1] != ("raid1",)


def _geometry(stack: BlockDevice, chunk_bytes: int, columns: int) -> StripeGeometry:
    device, level, members, layout = stack, "raid0", columns, None
    found = _array(stack)
    if found is not None:
        device, array = found
        level, members = _level_and_members(array, columns)
        layout = None if level == "raid0" else array.layout
    names = tuple(f"column {number}" for number in range(members))
    return StripeGeometry(device.name, level, chunk_bytes, _start_bytes(stack), names, layout)


def _array(stack: BlockDevice) -> tuple[BlockDevice, MdArray] | None:
    """Return the one md array with copies or parity below, None where there are more or none."""
    found = [
        (device, device.md.value)
        for device in stack.walk()
        if isinstance(device.md, Known) and device.md.value.level in {"raid10", *PARITY_MEMBERS}
    ]
    return found[0] if len(found) == 1 else None


def _level_and_members(array: MdArray, columns: int) -> tuple[str, int]:
    """Return the level, and how many members the columns of data stand for.

    A RAID10 reports half of its members, or all of them where its copies do not pair up. md
    calls a RAID0 a RAID4 as long as it reshapes it (raid5.c, raid5_takeover).
    """
    if array.level == "raid10":
        known = array.raid_disks in {columns, 2 * columns}
        return ("raid10", array.raid_disks) if known else ("raid0", columns)
    if array.level == "raid4" and array.reshape_position is not None:
        return "raid0", columns
    return array.level, columns + PARITY_MEMBERS[array.level]


def _start_bytes(stack: BlockDevice) -> int:
    """Return how far below the top the stripe begins, by the starts of partitions."""
    start_sectors = 0
    device = stack
    while device.start_sectors is not None and len(device.known_below) == 1:
        start_sectors += device.start_sectors
        device = device.known_below[0]
    return start_sectors * SECTOR_BYTES


NO_LAYOUT = -1
"""The value of `md/layout` where no layout is set, as for every RAID0 of equal members."""
ORDER_HINT = "see /sys/module/raid0/parameters/default_layout, and set it by mdadm --update"
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
