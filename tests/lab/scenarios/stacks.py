"""Stacks of disks: every kind of bus and cache, partitions, and device mapper on its own."""

from __future__ import annotations

from pathlib import Path

from lab.support.devices import disk
from lab.support.scenario import JsonObject, scenario
from lab.support.stacks import linear, scsi_disk, setting
from lab.support.story import tell

SMALLEST = "64M"
"""scsi_debug keeps its disk in the guest's memory."""


@scenario()
def virtio_write_back() -> JsonObject:
    """Audit the simplest stack: a virtio disk with a volatile cache."""
    return tell("virtio-write-back", disk("wide"), without_barriers=True)


@scenario()
def virtio_write_through() -> JsonObject:
    """Audit a virtio disk without a volatile cache."""
    return tell("virtio-write-through", disk("through"), without_barriers=True)


@scenario()
def nvme() -> JsonObject:
    """Audit an NVMe disk with a volatile cache."""
    return tell("nvme-plain", disk("nvme"), without_barriers=True)


@scenario()
def nvme_overridden() -> JsonObject:
    """Audit an NVMe disk whose cache the administrator declared away.

    QEMU's NVMe reports a volatile cache whatever it is told (7.2), so one without is to be had
    by the override of `queue/write_cache` only; the kernel then believes it as it would a drive.
    """
    device = disk("nvme")
    with setting(f"/sys/block/{device[5:]}/queue/write_cache", "write through"):
        return tell("nvme-cache-overridden", device, without_barriers=True)


@scenario()
def scsi_write_back() -> JsonObject:
    """Audit a SCSI disk, whose mode page says that it has a cache."""
    with scsi_disk(80) as device:
        return tell("scsi-write-back", device, size=SMALLEST, without_barriers=True)


@scenario()
def scsi_write_through() -> JsonObject:
    """Audit a SCSI disk whose cache was switched off in the disk itself, by its mode page."""
    with scsi_disk(80) as device:
        (cache,) = Path(f"/sys/block/{device[5:]}/device/scsi_disk").glob("*/cache_type")
        with setting(cache, "write through"):
            return tell("scsi-write-through", device, size=SMALLEST, without_barriers=True)


@scenario()
def dm_linear() -> JsonObject:
    """Audit a window of a disk, made by dmsetup."""
    with linear(disk("wide"), 8192, 1 << 21) as device:
        return tell("dm-linear", device)
