"""Layout as arithmetic; here, whether a stack stripes, and its geometry by its I/O sizes.

md, device mapper and most RAID controllers report the chunk as `minimum_io_size` and a whole
stripe of data as `optimal_io_size` (Documentation/ABI/stable/sysfs-block); partitions, LVM and
LUKS hand both on.
"""

from __future__ import annotations

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment, MdArray
from ext4audit.facts.layout import PARITY_MEMBERS, StripeGeometry

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
    chunk_bytes = for_wording(limits.minimum_io_bytes, 0)
    # A single disk reports its physical block here.
    if chunk_bytes <= max(for_wording(limits.physical_block_bytes, 0), SECTOR_BYTES):
        return None
    columns, rest = divmod(for_wording(limits.optimal_io_bytes, 0), chunk_bytes)
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
