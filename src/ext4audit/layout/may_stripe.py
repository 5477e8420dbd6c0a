"""Whether a stack may stripe at all: what is known even where the way of a byte is not."""

from __future__ import annotations

from ext4audit.evidence import Unknown
from ext4audit.facts.block import BlockDevice, DmSegment

LVM_STRIPES = "dm-striped"
"""What a geometry calls the stripes of LVM (targets "striped" and "raid raid0"): mdadm, which
grows a "raid0", cannot grow those."""

STRIPING_LEVELS = frozenset({"raid0", "raid10", "raid4", "raid5", "raid6", LVM_STRIPES})
"""md's words for the levels that stripe, and LVM's stripes."""


def may_stripe(stack: BlockDevice) -> bool:
    """Whether the bytes of a device may be spread over several members in chunks.

    False where nothing below stripes, whatever else cannot be told: a thin pool on one disk, a
    mirror, a file behind a loop device. A device-mapper device over one device cannot stripe
    even when its table is unreadable: else every laptop with LVM would be undetermined to an
    ordinary user.
    """
    if is_bottom(stack):
        return False
    if isinstance(stack.below, Unknown):
        return True
    return _splits(stack) or any(may_stripe(device) for device in stack.below.value)


def _splits(device: BlockDevice) -> bool:
    """Whether this very device stripes, or may do so behind what cannot be read."""
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


def is_bottom(device: BlockDevice) -> bool:
    """Whether nothing is looked for below a device: a disk, a loop device, a multipath device."""
    if device.loop is not None:
        return True
    # Multipath names its devices so for everybody; only root can read the table (libmultipath).
    return device.dm is not None and device.dm.uuid.startswith("mpath-")
