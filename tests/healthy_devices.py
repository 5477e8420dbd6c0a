"""The disks of healthy hosts, what they are divided into, and the ext4 that lies on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evidence_host import QUEUE, HostEvidence, replaced
from ext4audit.sources.ask import ListDir, ReadBytes
from healthy_filesystems import BLOCK_BYTES, Made, capture
from healthy_systems import System

HARD_DISK = {**QUEUE, "nr_requests": "64"}
SATA_SSD = {
    **QUEUE,
    "rotational": "0",
    "discard_max_bytes": "2147450880",
    "nr_requests": "64",
    "wbt_lat_usec": "2000",
}
NVME = {
    **QUEUE,
    "fua": "1",
    "rotational": "0",
    "discard_max_bytes": "2199023255040",
    "nr_requests": "1023",
    "max_sectors_kb": "128",
    "wbt_lat_usec": "2000",
}
VIRTIO = {**QUEUE, "discard_max_bytes": "2147483136"}
"""virtio-blk says that it rotates, and caches as its host does."""
EBS = {
    **NVME,
    "write_cache": "write through",
    "fua": "0",
    "discard_max_bytes": "0",
    "nr_requests": "127",
    "max_sectors_kb": "256",
}
"""Amazon's network volumes, which look like NVMe disks."""
_FIT_IN_ONE_ASK = 64 << 10


@dataclass(frozen=True)
class Block:
    """A block device: its name and number, its size and its queue."""

    name: str
    number: str
    size_bytes: int
    queue: Mapping[str, str]


def disk(host: HostEvidence, block: Block, **columns: str) -> None:
    """Attach a disk."""
    host.disk(block.name, block.number, **block.queue)
    _sized(host, block).listed(block.name, block.number, **columns)


def partition(host: HostEvidence, block: Block, whole: str, start: int, **columns: str) -> None:
    """Divide the disk with the number `whole`: a partition from the sector `start` on."""
    host.partition(block.name, block.number, whole, start)
    for key, value in block.queue.items():
        host.file(f"/sys/dev/block/{block.number}/../queue/{key}", f"{value}\n")
    _sized(host, block).listed(block.name, block.number, **columns)


def volume(
    host: HostEvidence, block: Block, title: str, uuid: str, *, on: Block, start: int
) -> None:
    """Make a logical volume, as lvcreate(8) does on one physical volume."""
    host.stacked(block.name, block.number, **{on.name: on.number})
    for key, value in block.queue.items():
        host.file(f"/sys/dev/block/{block.number}/queue/{key}", f"{value}\n")
    sectors = block.size_bytes >> 9
    host.dm(block.number, title, f"LVM-{uuid}", f"0 {sectors} linear {on.number} {start}\n")
    host.node(f"/dev/disk/by-id/dm-uuid-LVM-{uuid}", block.number)
    host.tell(ListDir(f"/sys/dev/block/{on.number}/holders"), block.name)
    _sized(host, block).listed(block.name, block.number)
    host._listed[block.name]["name"] = title


def _sized(host: HostEvidence, block: Block) -> HostEvidence:
    return host.file(f"/sys/dev/block/{block.number}/size", f"{block.size_bytes >> 9}\n")


@dataclass(frozen=True)
class Mounted:
    """How an ext4 is mounted: its source, and the options that were asked for beside rw.

    `changed` are words of its options file that they replace. `partuuid` is of its partition.
    """

    mount_id: int
    source: str
    asked: tuple[str, ...] = ()
    changed: Mapping[str, str] | None = None
    partuuid: str = ""


def ext4(host: HostEvidence, system: System, block: Block, made: Made, how: Mounted) -> None:
    """Make an ext4 on a device, and mount it."""
    captured = capture(made)
    shown = ",".join((system.shown, *how.asked))
    point, device = made.mount_point, _path(block, how)
    host.mount(how.mount_id, block.number, point, how.source, super_options=shown)
    host.usage(point, block.number, captured.counts)
    host.options(block.name, replaced(system.options, how.changed or {}))
    host.dumpe2fs(device, captured.header)
    host.node(f"/dev/disk/by-uuid/{made.uuid}", block.number)
    row = host._listed[block.name]
    row.update(fstype="ext4", uuid=made.uuid, label=made.label or None)
    row.update(partuuid=how.partuuid or None)
    _descriptors(host, device, captured.descriptors)


def _path(block: Block, how: Mounted) -> str:
    return how.source if block.name.startswith("dm-") else f"/dev/{block.name}"


def _descriptors(host: HostEvidence, device: str, data: bytes) -> None:
    """Give the group descriptors as a scan asks for them: at once, or block by block."""
    if len(data) <= _FIT_IN_ONE_ASK:
        host.groups(device, data)
        return
    for start in range(0, len(data), BLOCK_BYTES):
        piece = data[start : start + BLOCK_BYTES]
        host.tell(ReadBytes(device, BLOCK_BYTES + start, len(piece)), piece)
