"""Stacks of LVM: linear and striped logical volumes."""

from __future__ import annotations

from lab.scenarios.stacks_md import raid_disks
from lab.support.devices import disk
from lab.support.scenario import JsonObject, scenario
from lab.support.stack_audit import audit_stack
from lab.support.stack_remedies import recreate, turn_barriers_on
from lab.support.stacks import logical_volume


@scenario()
def lvm_linear() -> JsonObject:
    """Audit a linear volume, mounted without barriers that its fstab entry leaves enabled."""
    with logical_volume([disk("wide")], "-L", "1G") as device:
        audited = audit_stack("lvm-linear-nobarrier", device, options=("nobarrier",))
        return {**audited, "cured": turn_barriers_on(device)}


@scenario()
def lvm_striped() -> JsonObject:
    """Audit a volume of four stripes of 64 KiB with mkfs's defaults.

    A flex group's 16 block bitmaps fill one chunk and its inode bitmaps the next, so two of
    the four disks hold them all.
    """
    with logical_volume(raid_disks(2, 0, 3, 1), "-L", "40G", "-i", "4", "-I", "64k") as device:
        audited = audit_stack("lvm-striped", device, size="34G", as_nobody=True)
        return {**audited, "recreated": recreate(device)}
