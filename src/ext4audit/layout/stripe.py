"""Which stripe a filesystem lies on: walk down its device stack and add up the offsets.

A byte of the filesystem is followed through partitions, LVM and LUKS down to the first device
that stripes. Sources: drivers/md/raid0.c and Documentation/admin-guide/md.rst for md RAID0,
Documentation/admin-guide/device-mapper/{linear,dm-crypt,striped}.rst for device mapper.
"""

from __future__ import annotations

import re

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.block import SECTOR_BYTES, BlockDevice, DmSegment, MdArray
from ext4audit.facts.layout import StripeGeometry

WHAT = "stripe geometry"
STRIPED_LEVEL = "raid0"
RESHAPING_LEVELS = frozenset({STRIPED_LEVEL, "raid4"})
"""md turns a RAID0 into a RAID4 while it reshapes (raid5.c: raid5_takeover from raid0)."""

MDSTAT = "see /proc/mdstat"
BY_HAND = "count by hand: dumpe2fs -g names the bitmaps' blocks"
SECTOR = re.compile("[0-9]{1,19}")  # int() refuses numbers of thousands of digits
LINEAR_ARGUMENTS = 2  # device, offset
CRYPT_DEVICE = 3  # cipher, key, iv_offset, device, offset
STRIPED_HEAD = 2  # number of stripes, chunk in sectors


def find_stripe(stack: BlockDevice) -> Evidence[StripeGeometry] | None:
    """Return the geometry of the RAID0 stripe below a device, None where there is none.

    Parity and mirror levels are no stripe in this sense. Unknown where something striped lies
    below and the way of a byte to its member cannot be told: an array that is being reshaped,
    members of unequal size (md then stripes in zones), a table that only root can read.
    """
    offset_sectors = 0
    device = stack
    while True:
        if device.md is not None:
            return _md_stripe(device, device.md, offset_sectors)
        if device.dm is not None and isinstance(device.dm.table, Known):
            segments = device.dm.table.value
            if len(segments) == 1 and segments[0].target == "striped":
                return _dm_stripe(device, segments[0], offset_sectors, device.dm.table.origin)
        below = _one_below(device)
        if below is None:
            return _nothing_or_hole(device)
        device, start_sectors = below
        offset_sectors += start_sectors


def _md_stripe(
    device: BlockDevice, md: Evidence[MdArray], offset_sectors: int
) -> Evidence[StripeGeometry] | None:
    if isinstance(md, Unknown):
        return Unknown(WHAT, md.why, md.detail, md.hint)
    array = md.value
    if array.reshape_position is not None and array.level in RESHAPING_LEVELS:
        return _unsupported(f"{device.name} is being reshaped", "scan again after the reshape")
    if array.level != STRIPED_LEVEL or array.raid_disks == 1:
        return None
    problem = _problem(device.name, array)
    if problem is not None:
        return problem
    names = tuple(m.name for m in sorted(array.members, key=lambda member: member.slot))
    offset_bytes = offset_sectors * SECTOR_BYTES
    stripe = StripeGeometry(device.name, array.level, array.chunk_bytes, offset_bytes, names)
    return Known(stripe, md.origin)


def _problem(name: str, array: MdArray) -> Unknown | None:
    """Say what keeps a RAID0 from being one even stripe, None when it is one."""
    if array.chunk_bytes < SECTOR_BYTES:
        return _unsupported(f"{name}: chunk size {array.chunk_bytes} bytes", MDSTAT)
    count = len(array.members)
    if count != array.raid_disks or {m.slot for m in array.members} != set(range(count)):
        return _unsupported(f"{name}: {count} of {array.raid_disks} members are seen", MDSTAT)
    # raid0.c rounds each member down to whole chunks before it compares them.
    chunk_sectors = array.chunk_bytes // SECTOR_BYTES
    if len({m.size_sectors // chunk_sectors for m in array.members}) > 1:
        detail = f"{name}: its members have different sizes, so that it stripes in zones"
        return _unsupported(detail, BY_HAND)
    return None


def _dm_stripe(
    device: BlockDevice, segment: DmSegment, offset_sectors: int, origin: str
) -> Evidence[StripeGeometry] | None:
    """Read "striped N chunk device offset device offset …", as LVM makes it of --stripes."""
    try:
        count, chunk_sectors = (int(word) for word in segment.arguments[:STRIPED_HEAD])
    except ValueError:
        return Unknown(WHAT, Why.UNPARSABLE, f"{device.name}: {segment.arguments}")
    legs = [_device_numbered(device, number) for number in segment.arguments[STRIPED_HEAD::2]]
    names = tuple(leg.name for leg in legs if leg is not None)
    if count == 1:
        return None
    if len(names) != count or chunk_sectors < 1:
        return Unknown(WHAT, Why.UNPARSABLE, f"{device.name}: {segment.arguments}")
    chunk_bytes, offset_bytes = chunk_sectors * SECTOR_BYTES, offset_sectors * SECTOR_BYTES
    return Known(StripeGeometry(device.name, device.kind, chunk_bytes, offset_bytes, names), origin)


def _one_below(device: BlockDevice) -> tuple[BlockDevice, int] | None:
    """Return the one device that this one lies on as a whole, and at which sector of it."""
    if device.kind == "partition" and device.start_sectors is not None:
        return next(((below, device.start_sectors) for below in device.known_below), None)
    if device.dm is None or isinstance(device.dm.table, Unknown):
        return None
    segments = device.dm.table.value
    place = _place(segments[0]) if len(segments) == 1 else None
    below = _device_numbered(device, place[0]) if place else None
    return (below, place[1]) if below is not None and place else None


def _place(segment: DmSegment) -> tuple[str, int] | None:
    """Return the device number and the sector that a linear or a crypt segment starts at."""
    skip = {"linear": 0, "crypt": CRYPT_DEVICE}.get(segment.target)
    words = segment.arguments[skip : skip + LINEAR_ARGUMENTS] if skip is not None else ()
    if len(words) != LINEAR_ARGUMENTS or not SECTOR.fullmatch(words[1]):
        return None
    return words[0], int(words[1])


def _device_numbered(device: BlockDevice, number: str) -> BlockDevice | None:
    return next((d for d in device.known_below if str(d.device_number) == number), None)


def _nothing_or_hole(device: BlockDevice) -> Unknown | None:
    """Tell "no stripe" from "a stripe may lie below, and the way to it is not known"."""
    if device.loop is not None:
        # A file's blocks are scattered over whatever lies below: no stripe of this filesystem.
        return None
    if isinstance(device.below, Unknown):
        return Unknown(WHAT, device.below.why, device.below.detail, device.below.hint)
    if not any(_may_stripe(below) for below in device.walk()):
        return None
    if device.dm is not None and isinstance(device.dm.table, Unknown):
        table = device.dm.table
        return Unknown(WHAT, table.why, table.detail, table.hint)
    return _unsupported(
        f"the way of a byte through {device.name} ({device.kind}) is not simple",
        BY_HAND,
    )


def _may_stripe(device: BlockDevice) -> bool:
    """Whether a device stripes, or may do so behind a table that cannot be read.

    A dm device over one device cannot stripe: else every LVM laptop would be undetermined to
    an ordinary user.
    """
    if device.md is not None:
        return isinstance(device.md, Unknown) or device.md.value.level == STRIPED_LEVEL
    if device.dm is None:
        return False
    if isinstance(device.dm.table, Unknown):
        return len(device.known_below) > 1
    return any(_is_striped(segment) for segment in device.dm.table.value)


def _is_striped(segment: DmSegment) -> bool:
    raid0 = segment.target == "raid" and segment.arguments[:1] == (STRIPED_LEVEL,)
    return segment.target == "striped" or raid0


def _unsupported(detail: str, hint: str) -> Unknown:
    return Unknown(WHAT, Why.UNSUPPORTED, detail, hint)
