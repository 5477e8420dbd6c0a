"""Health rules: recorded errors, forced read-only, degraded arrays."""

from collections.abc import Iterator

from ext4audit.facts.devices import BlockDevice, LsblkDevice, listed_device
from ext4audit.finding import Citation

NETWORKS = frozenset({"fc", "fcoe", "iscsi", "srp"})
"""lsblk transports through which several hosts can reach the same disk."""


def network_disks(stack: BlockDevice, rows: tuple[LsblkDevice, ...]) -> Iterator[Citation]:
    """Cite the devices of a stack that several hosts may be able to reach."""
    for device in stack.walk():
        if device.kind == "dm-multipath":
            yield Citation("device below", f"{device.name}, multipath", "dmsetup table")
        row = listed_device(rows, device.device_number)
        if row is not None and row.transport in NETWORKS:
            yield Citation("device below", f"{device.name}, {row.transport}", "lsblk")
