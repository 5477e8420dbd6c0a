"""Performance rules; helpers to estimate dirty data and how long submitting it takes.

The caller waits for the data that does not fit into the block queue: (dirty bytes - capacity of
the queue) / throughput. This fits measurements on 4.19, 5.10 and 6.12 with a disk of 30 MiB/s:
240 MiB took 7.6 s with writeback throttling and 0.1 s without, when the queue took all of it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, Why, absent_means, derive, for_wording
from ext4audit.facts import KIB, MIB
from ext4audit.facts.devices import (
    NVME,
    REMOVABLE,
    ROTATIONAL,
    SECTOR_BYTES,
    SSD,
    VIRTUAL,
    BlockDevice,
    DiskClass,
    disk_classes,
)
from ext4audit.facts.host import Filesystem, Host, Memory
from ext4audit.finding import Citation, Disruption, Remedy
from ext4audit.rules.shared import is_in_memory

LOADED_BEFORE = (
    " Files that are open or cached keep the old allocation mode, because ext4 sets it when it "
    "loads an inode. Unmount and mount the filesystem, or restart, to reach all files."
)
"""Seen on 6.18: after a remount with delalloc, writes to such a file are still allocated at once
(FIEMAP); only a new mount reaches all files."""


def backlog_bytes(fs: Filesystem, memory: Memory) -> int:
    """Return how many bytes can be dirty: the limit, or the size of a smaller filesystem."""
    return min(memory.dirty_limit_bytes, _device_bytes(fs) or memory.dirty_limit_bytes)


def cite_size(fs: Filesystem, memory: Memory) -> Iterator[Citation]:
    """Cite the device's size if it, and not the dirty limit, bounds the backlog."""
    size_bytes = _device_bytes(fs)
    if 0 < size_bytes < memory.dirty_limit_bytes and isinstance(fs.stack, Known):
        value = f"{size_bytes // MIB} MiB: no more can be dirty"
        yield Citation("size", value, fs.stack.origin, detail=True)


def cite_memory(memory: Known[Memory]) -> Citation:
    """Cite the limit of dirty memory and the setting that determines it."""
    facts = memory.value
    limit = (
        f"vm.dirty_bytes = {facts.dirty_bytes}"
        if facts.dirty_bytes
        else f"vm.dirty_ratio = {facts.dirty_ratio_percent} % of "
        f"{facts.available_bytes // MIB} MiB available"
    )
    return Citation(
        "dirty limit",
        f"{facts.dirty_limit_bytes // MIB} MiB ({limit}; memory {facts.total_bytes // MIB} MiB)",
        memory.origin,
        detail=True,
    )


def _device_bytes(fs: Filesystem) -> int:
    """Return the size of the filesystem's device, 0 if unknown."""
    if not isinstance(fs.stack, Known):
        return 0
    return for_wording(fs.stack.value.size_sectors, 0) * SECTOR_BYTES


THROTTLED_REQUESTS = 8
"""An assumption: writeback throttling admits only a few requests (block/blk-wbt.c)."""
STRIPED = frozenset({"raid0", "dm-striped"})
"""Devices that spread a file evenly over their members."""
IN_MEMORY = "disk in memory"
"""RAM disks are assumed to be as fast as an SSD: zram compresses writes on one processor."""
NO_QUEUE = Unknown(
    "queues below a filesystem", Why.UNPARSABLE, "its device stack has no leaf device"
)
"""The gap for a stack that contains itself, which only inconsistent evidence can produce."""


class Drain(NamedTuple):
    """One request queue below a filesystem, and the assumed speed of its device.

    `shares` is the number of queues that share the data equally: the members of a stripe.
    `is_slow` is whether disks of the class are known to be slow; virtual disks can have any speed.
    """

    name: str
    speed_class: str
    megabytes_per_second: int
    nr_requests: int
    max_sectors_kb: int
    wbt_latency_usec: int
    shares: int = 1
    is_slow: bool = False

    @property
    def bytes_per_second(self) -> int:
        """The assumed total speed of all devices that share the data."""
        return self.megabytes_per_second * self.shares * 1_000_000

    @property
    def throttled(self) -> bool:
        """Whether writeback throttling keeps the queue shallow."""
        return self.wbt_latency_usec > 0

    def holds_bytes(self, *, throttled: bool) -> int:
        """Return how many bytes the queue accepts before the submitter must wait."""
        requests = min(self.nr_requests, THROTTLED_REQUESTS) if throttled else self.nr_requests
        return requests * self.max_sectors_kb * KIB

    def seconds(self, dirty_bytes: int, *, throttled: bool) -> float:
        """Return how long submitting this queue's part of `dirty_bytes` takes."""
        part_bytes = dirty_bytes / self.shares
        waiting_bytes = max(0, part_bytes - self.holds_bytes(throttled=throttled))
        return waiting_bytes / (self.megabytes_per_second * 1_000_000)


def drains_of(fs: Filesystem, host: Host) -> tuple[Evidence[Drain], ...]:
    """Return the queues below a filesystem, each known or with the reason why it is not."""
    if isinstance(fs.stack, Unknown):
        return (fs.stack,)
    return read_drains(fs.stack.value, host.virtualization)


def read_drains(stack: BlockDevice, virtual: Evidence[str | None]) -> tuple[Evidence[Drain], ...]:
    """Return the queues of all disks and loop devices below a filesystem.

    Partitions share their disk's queue; md and dm pass on requests without a queue.
    """
    devices = list(stack.walk())
    leaves = sum(not device.known_below for device in devices)
    shares = leaves if any(device.kind in STRIPED for device in devices) else 1
    drains = tuple(
        _read_drain(device, virtual, 1 if device.known_below else shares)
        for device in devices
        if not device.known_below or device.loop is not None
    )
    return drains or (NO_QUEUE,)


def stall_seconds(dirty_bytes: int, drains: Sequence[Drain], *, throttling: bool = True) -> float:
    """Return the estimate for the slowest queue; `throttling=False` assumes throttling is off."""
    return max(
        drain.seconds(dirty_bytes, throttled=drain.throttled and throttling) for drain in drains
    )


def _read_drain(device: BlockDevice, virtual: Evidence[str | None], shares: int) -> Evidence[Drain]:
    queue = device.queue

    def build(disks: DiskClass, requests: int, kilobytes: int, latency: int) -> Drain:
        title, speed = disks.title, disks.megabytes_per_second
        return Drain(device.name, title, speed, requests, kilobytes, latency, shares, disks.slow)

    return derive(
        f"queue of {device.name}",
        build,
        _class_of(device, virtual),
        # A device without a request queue (NVMe multipath) lacks these files and queues nothing.
        absent_means(queue.nr_requests, 0),
        queue.max_sectors_kb,
        absent_means(queue.wbt_latency_usec, 0),
        origin=f"/sys/block/{device.name}/queue",
    )


def _class_of(device: BlockDevice, virtual: Evidence[str | None]) -> Evidence[DiskClass]:
    """Return the class of a device, with its assumed write speed.

    The `rotational` attribute of a virtual disk is the driver's default, whatever its medium is.
    """
    classes = disk_classes()
    if is_in_memory(device):
        return Known(classes[SSD]._replace(title=IN_MEMORY, slow=False), device.name)
    if _is_named(device, NVME):
        return Known(classes[NVME], device.name)
    if is_removable(device):
        return Known(classes[REMOVABLE], device.name)
    if is_virtual(device) or for_wording(virtual, None):
        return Known(classes[VIRTUAL], device.name)
    return derive(
        f"rotational of {device.name}",
        lambda rotational, _: classes[ROTATIONAL if rotational else SSD],
        device.queue.rotational,
        virtual,
    )


def _is_named(device: BlockDevice, name: str) -> bool:
    """Return whether the kernel's name of the device shows that it belongs to a class."""
    return device.name.startswith(disk_classes()[name].names)


def is_virtual(device: BlockDevice) -> bool:
    """Return whether the name of a device is that of a virtual disk."""
    return _is_named(device, VIRTUAL)


def is_removable(device: BlockDevice) -> bool:
    """Return whether udev or the device name shows a USB disk or a memory card."""
    return ("ID_BUS", "usb") in device.udev or _is_named(device, REMOVABLE)


STALL_SECONDS = 2
"""The longest acceptable stall, and the time in which a bounded backlog should be written."""
VISIBLE_SHARE = 0.1
"""The share of the estimate that a remedy must save to be offered."""

IN_THE_APPLICATION = Remedy(
    summary="In the application: call fsync() on the new file before the rename, or rename it to "
    "a name that does not exist yet.",
    disruption=Disruption.ONLINE,
    trade_off="fsync() waits instead, but for this file only, and without the directory's lock.",
)

# No steps: the next report would propose to undo them (DUR008).
WITHOUT_AUTO_DA_ALLOC = Remedy(
    summary="As a last resort, for data that a crash may destroy: mount with noauto_da_alloc. "
    "rename() and close() then do not block. DUR008 reports the option.",
    disruption=Disruption.REMOUNT,
    trade_off="A file that was replaced without fsync() can be empty or truncated after a crash: "
    "use it for scratch data only, or where every writer calls fsync().",
)


def stall_remedies(
    memory: Memory, file_bytes: int, drains: Sequence[Drain], *, contained: bool
) -> Iterator[Remedy]:
    """Yield the remedies that keep crash safety, the safest first.

    Queues and the limits of dirty memory belong to the host: a container cannot set them.
    """
    yield IN_THE_APPLICATION
    if not contained:
        yield from _unthrottle(file_bytes, drains)
        yield bound(memory, drains)


def _unthrottle(file_bytes: int, drains: Sequence[Drain]) -> Iterator[Remedy]:
    """Yield the remedy that disables writeback throttling, if it helps noticeably."""
    now = stall_seconds(file_bytes, drains)
    then = stall_seconds(file_bytes, drains, throttling=False)
    throttled = [drain for drain in drains if drain.throttled]
    if now - then < VISIBLE_SHARE * now:
        return
    takes_bytes = min(drain.holds_bytes(throttled=False) * drain.shares for drain in drains)
    yield Remedy(
        summary=f"Disable writeback throttling on {', '.join(d.name for d in throttled)}: renaming "
        f"a file of up to {takes_bytes // MIB} MiB then does not block, and the estimate falls "
        f"from ~{now:.1f} s to ~{then:.1f} s.",
        disruption=Disruption.ONLINE,
        steps=remedies.configuration.disable_writeback_throttling(
            [(d.name, d.wbt_latency_usec) for d in throttled]
        ),
        trade_off="Reads wait longer behind background writes. The udev rule matches the "
        "kernel's name of the disk, which may change when disks are added.",
    )


def bound(memory: Memory, drains: Sequence[Drain]) -> Remedy:
    """Return a remedy to limit dirty memory to what the slowest queue writes in STALL_SECONDS."""
    slowest = min(drain.bytes_per_second for drain in drains)
    limit_bytes = STALL_SECONDS * slowest // MIB * MIB
    return Remedy(
        summary=f"Limit dirty memory to {limit_bytes // MIB} MiB, which the slowest device should "
        f"write in {STALL_SECONDS} s.",
        disruption=Disruption.ONLINE,
        steps=remedies.configuration.limit_dirty_memory(memory, limit_bytes),
        trade_off="The limit applies to all filesystems of the host: programs that write in "
        "bursts wait earlier. A later file in /etc/sysctl.d, or tuned, may override it at boot.",
    )
