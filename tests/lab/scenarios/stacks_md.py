"""Stacks of md arrays: each level, unequal members, partitions above and below."""

from __future__ import annotations

from lab.support.devices import disk, md
from lab.support.scenario import JsonObject, scenario
from lab.support.stack_audit import audit_stack
from lab.support.stack_remedies import recreate
from lab.support.stacks import luks, partitions

CHUNK = "--chunk=512"
GIB_SECTORS = 1 << 21


def raid_disks(*numbers: int) -> list[str]:
    """Return some of the equal disks, in the given order."""
    return [disk(f"raid{number:02}") for number in numbers]


@scenario()
def md_raid0() -> JsonObject:
    """Audit a RAID0 of four with mkfs's defaults, which put all bitmaps on the first member.

    The slots are not in the order of disk names. 34 GiB are 17 flex groups: on four disks
    LAY001 needs at least 16.
    """
    with md("0", raid_disks(2, 0, 3, 1), CHUNK) as device:
        return audit_stack("md-raid0-hot-member", device, size="34G", as_nobody=True)


@scenario()
def md_raid0_unequal() -> JsonObject:
    """Audit a RAID0 whose third member is smaller: md stripes it in zones."""
    with md("0", [*raid_disks(0, 1), disk("wide")], CHUNK, "--layout=alternate") as device:
        return audit_stack("md-raid0-unequal-members", device)


@scenario()
def md_raid1_through() -> JsonObject:
    """Audit a mirror of partitions of a write-through disk, with barriers off.

    The array still reports "write back".
    """
    with (
        partitions(disk("through"), 2048, 4 * GIB_SECTORS, sectors=2 * GIB_SECTORS) as parts,
        md("1", parts, "--metadata=1.2") as device,
    ):
        return audit_stack(
            "md-raid1-write-through-nobarrier",
            device,
            options=("nobarrier",),
            fstab="defaults,nobarrier",
        )


@scenario()
def md_raid5() -> JsonObject:
    """Audit a RAID5 of three."""
    with md("5", raid_disks(0, 1, 2), CHUNK) as device:
        return audit_stack("md-raid5", device)


@scenario()
def md_raid10() -> JsonObject:
    """Audit a RAID10 of four."""
    with md("10", raid_disks(1, 0, 3, 2), CHUNK) as device:
        return audit_stack("md-raid10", device, without_barriers=True)


@scenario()
def partition_on_md() -> JsonObject:
    """Audit a partition that starts at the fourth chunk of a RAID0 of two.

    The offset of three chunks rotates the members: all bitmaps are on the second one.
    """
    start = 3 * 1024
    with (
        md("0", raid_disks(0, 1), CHUNK) as device,
        partitions(device, start, sectors=20 * GIB_SECTORS) as parts,
    ):
        audited = audit_stack("partition-on-md", parts[0], size="18G")
        return {**audited, "recreated": recreate(parts[0])}


@scenario()
def luks_on_md() -> JsonObject:
    """Audit LUKS on a RAID0 of three, whose odd number spreads the bitmaps evenly."""
    with md("0", raid_disks(0, 1, 2), CHUNK) as device, luks(device) as opened:
        return audit_stack("luks-on-md", opened, size="26G", without_barriers=True)
