"""Performance; how much dirty data waits in memory, and how long its submission takes.

The caller waits for what does not fit into the block queue: (dirty bytes - what the queue takes)
/ throughput. This fits what was measured on 4.19, 5.10 and 6.12 with a disk of 30 MiB/s: 240 MiB
took 7.6 s with writeback throttling and 0.1 s without, for the queue then took all of it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, Why, absent_means, derive, for_wording
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem, Memory
from ext4audit.finding import Citation, Disruption, Remedy

MIB = 1 << 20
LOADED_BEFORE = (
    " Files that are open or cached stay without it, whatever the options then show: ext4 decides "
    "when it loads an inode. Afterwards unmount it and mount it again, or restart; dropping "
    "caches reaches no file that is open."
)
"""Seen on 6.18: what is written to such a file is allocated at once (FIEMAP), after a remount with
delalloc as before; only a new mount reaches all files."""


def backlog_bytes(fs: Filesystem, memory: Memory) -> int:
    """Return what can be dirty: the limit, or all of a filesystem that is smaller."""
    return min(memory.dirty_limit_bytes, _device_bytes(fs) or memory.dirty_limit_bytes)


def cite_size(fs: Filesystem, memory: Memory) -> Iterator[Citation]:
    """Cite the device's size where it, and not the limit, bounds the backlog."""
    size_bytes = _device_bytes(fs)
    if 0 < size_bytes < memory.dirty_limit_bytes and isinstance(fs.stack, Known):
        yield Citation("size", f"{size_bytes // MIB} MiB: no more can be dirty", fs.stack.origin)


def cite_memory(memory: Known[Memory]) -> Citation:
    """Cite the limit of dirty memory, and which setting makes it."""
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
    )


def _device_bytes(fs: Filesystem) -> int:
    """Return the size of the filesystem's device, 0 where it is not known."""
    if not isinstance(fs.stack, Known):
        return 0
    return for_wording(fs.stack.value.size_sectors, 0) * SECTOR_BYTES


THROTTLED_REQUESTS = 8
"""Assumed: writeback throttling lets only a few requests through (block/blk-wbt.c)."""
VIRTUAL_NAMES = ("vd", "xvd")
"""Virtual disks: what their `rotational` says is the driver's default, not the disk's nature."""
STRIPED = frozenset({"raid0", "dm-striped"})
"""Devices that spread a file evenly over what lies below."""
KIB = 1024
NO_QUEUE = Unknown(
    "queues below a filesystem", Why.UNPARSABLE, "its stack has no device at the end"
)
"""A stack that leads back into itself, which only odd evidence shows."""


class Drain(NamedTuple):
    """One request queue that dirty data leaves by, and the speed that its device should have.

    `shares` is how many queues take an equal part of the data each: the members of a stripe.
    """

    name: str
    speed_class: str
    megabytes_per_second: int
    nr_requests: int
    max_sectors_kb: int
    wbt_latency_usec: int
    shares: int = 1

    @property
    def throttled(self) -> bool:
        """Whether writeback throttling keeps the queue shallow."""
        return self.wbt_latency_usec > 0

    def holds_bytes(self, *, throttled: bool) -> int:
        """Return how much the queue takes before the one who submits must wait."""
        requests = min(self.nr_requests, THROTTLED_REQUESTS) if throttled else self.nr_requests
        return requests * self.max_sectors_kb * KIB

    def seconds(self, dirty_bytes: int, *, throttled: bool) -> float:
        """Return how long the submission of its part of `dirty_bytes` takes."""
        part_bytes = dirty_bytes / self.shares
        waiting_bytes = max(0, part_bytes - self.holds_bytes(throttled=throttled))
        return waiting_bytes / (self.megabytes_per_second * 1_000_000)


def read_drains(stack: BlockDevice, virtual: Evidence[str | None]) -> tuple[Evidence[Drain], ...]:
    """Return the queues below a filesystem: those of the disks, and those of loop devices.

    Partitions share their disk's queue, md and dm pass requests on without one.
    """
    devices = list(stack.walk())
    leaves = [device for device in devices if not device.known_below]
    striped = any(device.kind in STRIPED for device in devices)
    drains = tuple(
        _read_drain(device, virtual, len(leaves) if striped and device in leaves else 1)
        for device in devices
        if not device.known_below or device.loop is not None
    )
    return drains or (NO_QUEUE,)


def stall_seconds(dirty_bytes: int, drains: Sequence[Drain], *, throttling: bool = True) -> float:
    """Return the estimate for the slowest queue, as it is or with throttling switched off."""
    return max(
        drain.seconds(dirty_bytes, throttled=drain.throttled and throttling) for drain in drains
    )


def _read_drain(device: BlockDevice, virtual: Evidence[str | None], shares: int) -> Evidence[Drain]:
    queue = device.queue

    def build(speed: tuple[str, int], requests: int, kilobytes: int, latency: int) -> Drain:
        return Drain(device.name, *speed, requests, kilobytes, latency, shares)

    return derive(
        f"queue of {device.name}",
        build,
        _speed(device, virtual),
        # A device without a request queue (NVMe multipath) has no such files: it holds nothing.
        absent_means(queue.nr_requests, 0),
        queue.max_sectors_kb,
        absent_means(queue.wbt_latency_usec, 0),
        origin=f"/sys/block/{device.name}/queue",
    )


def _speed(device: BlockDevice, virtual: Evidence[str | None]) -> Evidence[tuple[str, int]]:
    """Return the class of a device and the megabytes per second that it is assumed to write."""
    if device.name.startswith("nvme"):
        return Known(("NVMe", 1000), device.name)
    if device.name.startswith(VIRTUAL_NAMES) or for_wording(virtual, None):
        return Known(("network or virtual disk", 125), device.name)
    return derive(
        f"rotational of {device.name}",
        lambda rotational, _: ("rotational disk", 120) if rotational else ("SATA or SAS SSD", 400),
        device.queue.rotational,
        virtual,
    )


STALL_SECONDS = 2
"""What a stall may take before it is more than a note, and what a bounded backlog takes."""
VISIBLE_SHARE = 0.1
"""The share by which steps must lower the estimate to be offered."""

IN_THE_APPLICATION = Remedy(
    summary="In the application: fsync the new file before the rename, or rename it to a name "
    "that does not exist yet.",
    disruption=Disruption.ONLINE,
    trade_off="The fsync waits instead, but for this file only, and outside the directory's lock.",
)

# No steps: DUR008 would propose to undo them in the next report.
WITHOUT_AUTO_DA_ALLOC = Remedy(
    summary="Last, and only where a crash may cost what was not synced: the mount option "
    "noauto_da_alloc. Rename and close then submit nothing, and DUR008 warns of it from then on.",
    disruption=Disruption.REMOUNT,
    trade_off="A file that is replaced without fsync can be empty or short after a crash: "
    "only for scratch data, or where every writer calls fsync.",
)


def stall_remedies(
    memory: Memory, backlog: int, drains: Sequence[Drain], *, contained: bool
) -> Iterator[Remedy]:
    """Yield all remedies, the safest first; `backlog` is in bytes.

    Queues and the limits of dirty memory are the host's, and not to be set where `contained`.
    """
    yield IN_THE_APPLICATION
    if not contained:
        yield from _unthrottle(backlog, drains)
        yield bound(memory, drains)
    yield WITHOUT_AUTO_DA_ALLOC


def _unthrottle(backlog: int, drains: Sequence[Drain]) -> Iterator[Remedy]:
    """Yield the remedy that disables writeback throttling where the estimate then falls visibly."""
    now = stall_seconds(backlog, drains)
    then = stall_seconds(backlog, drains, throttling=False)
    throttled = [drain for drain in drains if drain.throttled]
    if now - then < VISIBLE_SHARE * now:
        return
    takes_bytes = min(drain.holds_bytes(throttled=False) * drain.shares for drain in drains)
    yield Remedy(
        summary=f"Switch writeback throttling off on {', '.join(d.name for d in throttled)}: a "
        f"file of up to {takes_bytes // MIB} MiB then stalls nothing, the worst case falls from "
        f"~{now:.1f} s to ~{then:.1f} s.",
        disruption=Disruption.ONLINE,
        steps=remedies.kernel_settings.disable_writeback_throttling(
            [(d.name, d.wbt_latency_usec) for d in throttled]
        ),
        trade_off="Reads wait longer behind background writes. The udev rule goes by the "
        "kernel's name of the disk, which may change when disks are added.",
    )


def bound(memory: Memory, drains: Sequence[Drain]) -> Remedy:
    """Limit dirty memory to what the slowest queue writes within `STALL_SECONDS`."""
    slowest = min(drain.megabytes_per_second * drain.shares for drain in drains)
    limit_bytes = STALL_SECONDS * slowest * 1_000_000 // MIB * MIB
    return Remedy(
        summary=f"Bound the backlog of dirty memory to {limit_bytes // MIB} MiB, which is "
        f"{STALL_SECONDS} s of writing.",
        disruption=Disruption.ONLINE,
        steps=remedies.kernel_settings.limit_dirty_memory(memory, limit_bytes),
        trade_off="It holds for all filesystems of the host: programs that write in bursts wait "
        "sooner. A later file in /etc/sysctl.d, or tuned, may set it back at boot.",
    )
