"""Health rules: recorded errors, forced read-only, degraded arrays."""

from collections.abc import Iterator

from ext4audit.evidence import Evidence, Unknown, Why
from ext4audit.facts.devices import BlockDevice, LsblkDevice, listed_device
from ext4audit.finding import Citation
from ext4audit.rules.shared import gaps_below

SCSI, RBD = "sd", "rbd"

NETWORKS = frozenset({"fc", "fcoe", "iscsi", "srp"})
"""lsblk transports through which several hosts can reach the same disk."""


def network_disks(stack: BlockDevice, rows: tuple[LsblkDevice, ...]) -> Iterator[Citation]:
    """Cite the devices of a stack that several hosts may be able to reach."""
    for device in stack.walk():
        if device.kind == "dm-multipath":
            yield Citation("device below", f"{device.name}, multipath", "dmsetup table")
        if device.name.startswith(RBD):
            yield Citation("device below", f"{device.name}, Ceph RBD", "/sys/block")
        row = listed_device(rows, device.device_number)
        if row is not None and row.transport in NETWORKS:
            yield Citation("device below", f"{device.name}, {row.transport}", "lsblk")


def network_gaps(
    stack: Evidence[BlockDevice], rows: Evidence[tuple[LsblkDevice, ...]]
) -> Iterator[Unknown]:
    """Yield why a stack may have disks of a storage network that network_disks() does not see.

    One reason is a SCSI disk without a captured transport, as in archives.
    """
    if isinstance(stack, Unknown) or isinstance(rows, Unknown):
        yield from (each for each in (stack, rows) if isinstance(each, Unknown))
        return
    yield from gaps_below(stack.value)
    for disk in stack.value.leaves():
        row = listed_device(rows.value, disk.device_number)
        if disk.name.startswith(SCSI) and row is not None and "TRAN" in row.unlisted:
            yield Unknown(f"transport of {disk.name}", Why.NOT_CAPTURED)
