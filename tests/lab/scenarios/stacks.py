"""Stacks of disks: every kind of bus and cache, partitions, and device mapper alone."""

from __future__ import annotations

from pathlib import Path

from lab.support.devices import disk
from lab.support.scenario import JsonObject, scenario
from lab.support.stack_audit import audit_stack
from lab.support.stacks import linear, scsi_disk, setting

SMALLEST = "64M"
"""scsi_debug keeps its disk in the guest's memory."""


@scenario()
def virtio_write_back() -> JsonObject:
    """Audit the simplest stack: a virtio disk with a volatile cache."""
    return audit_stack("virtio-write-back", disk("wide"), without_barriers=True)


@scenario()
def virtio_write_through() -> JsonObject:
    """Audit a virtio disk without a volatile cache."""
    return audit_stack("virtio-write-through", disk("through"), without_barriers=True)


@scenario()
def nvme() -> JsonObject:
    """Audit an NVMe disk with a volatile cache."""
    return audit_stack("nvme-plain", disk("nvme"), without_barriers=True)


@scenario()
def nvme_overridden() -> JsonObject:
    """Audit an NVMe disk whose cache the administrator overrode.

    QEMU's NVMe always reports a volatile cache, whatever its settings (7.2), so a disk without
    one needs the override in `queue/write_cache`; the kernel trusts it like a drive's report.
    """
    device = disk("nvme")
    with setting(f"/sys/block/{device[5:]}/queue/write_cache", "write through"):
        return audit_stack("nvme-cache-overridden", device, without_barriers=True)


@scenario()
def scsi_write_back() -> JsonObject:
    """Audit a SCSI disk whose mode page reports a cache."""
    with scsi_disk(80) as device:
        return audit_stack("scsi-write-back", device, size=SMALLEST, without_barriers=True)


@scenario()
def scsi_write_through() -> JsonObject:
    """Audit a SCSI disk whose cache was disabled in the disk itself, with its mode page."""
    with scsi_disk(80) as device:
        (cache,) = Path(f"/sys/block/{device[5:]}/device/scsi_disk").glob("*/cache_type")
        with setting(cache, "write through"):
            return audit_stack("scsi-write-through", device, size=SMALLEST, without_barriers=True)


@scenario()
def dm_linear() -> JsonObject:
    """Audit part of a disk, mapped by dmsetup."""
    with linear(disk("wide"), 8192, 1 << 21) as device:
        return audit_stack("dm-linear", device)
