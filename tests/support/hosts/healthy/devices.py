"""Devices and filesystems of healthy hosts.

mke2fs makes each on a sparse file, resize2fs grows those that a cloud grows at first boot, and
debugfs sets the superblock fields that a mount and half a year of use would change.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ext4audit.sources import ListDir, ReadBytes
from support.hosts.evidence_host import QUEUE, HostEvidence, replaced
from support.hosts.healthy.systems import Mke2fs, System
from support.images.mke2fs import sparse_image

BLOCK_BYTES = 4096
GROUP_BLOCKS = 32768
DESCRIPTOR_BYTES = 64
INODE_ZEROED = 4
MADE_AT, WRITTEN_AT = 1751364000, 1767322800
"""Unix times in seconds: 2025-07-01, and an hour before the fixture hosts are audited."""
MOUNTED = "20251220060000"
LEAST_RESERVED = 4096
"""Maximum clusters that the kernel reserves (2 %) in addition to root's (fs/ext4/super.c)."""
USED_PERCENT = 35


@dataclass(frozen=True)
class FilesystemSpec:
    """A filesystem to make; `grown_from` is its size in bytes at mke2fs, if it was smaller."""

    mke2fs: Mke2fs
    uuid: str
    size_bytes: int
    mount_point: str
    label: str = ""
    grown_from: int = 0


@dataclass(frozen=True)
class FilesystemAnswers:
    """The answers about a filesystem: `dumpe2fs -h`, group descriptors, counts of statvfs(3)."""

    header: str
    descriptors: bytes
    counts: str


def capture(made: FilesystemSpec) -> FilesystemAnswers:
    """Make a filesystem, grow and age it, and return its answers."""
    with sparse_image(made.grown_from or made.size_bytes) as image:
        _make(made, image)
        if made.grown_from:
            _grow(made, image)
        _age(made, image)
        header = _run("dumpe2fs", "-h", image)
        groups = -(-_number(header, "Block count") // GROUP_BLOCKS)
        descriptors = _descriptors_healthy_filesystems(image, groups)
    return FilesystemAnswers(made.mke2fs.words(header), descriptors, _counts(header))


def _make(made: FilesystemSpec, image: Path) -> None:
    """Run mke2fs; it finds the file zeroed, so it leaves no inode table to lazy initialization."""
    configuration = image.with_name("mke2fs.conf")
    configuration.write_text(made.mke2fs.configuration, encoding="utf-8")
    identity = ["-U", made.uuid, "-L", made.label, "-E", f"hash_seed={made.uuid}"]
    environment = {"MKE2FS_CONFIG": str(configuration), "at": str(MADE_AT)}
    _run("mke2fs", "-q", "-F", "-t", "ext4", *identity, image, **environment)


def _grow(made: FilesystemSpec, image: Path) -> None:
    """Grow it, and mark inode tables as zeroed, as the kernel does for those it adds online."""
    os.truncate(image, made.size_bytes)
    _run("resize2fs", "-f", image)
    _edit(
        image,
        [
            command
            for group, flags in enumerate(_flags(image, made.size_bytes))
            for command in (
                f"set_bg {group} flags {flags | INODE_ZEROED}",
                f"set_bg {group} checksum calc",
            )
        ],
    )


def _flags(image: Path, size_bytes: int) -> list[int]:
    """Return the bg_flags of each group (Documentation/filesystems/ext4/group_descr.rst)."""
    groups = -(-size_bytes // (BLOCK_BYTES * GROUP_BLOCKS))
    data = _descriptors_healthy_filesystems(image, groups)
    starts = range(0, len(data), DESCRIPTOR_BYTES)
    return [int.from_bytes(data[start + 0x12 : start + 0x14], "little") for start in starts]


def _descriptors_healthy_filesystems(image: Path, groups: int) -> bytes:
    with image.open("rb") as file:
        file.seek(BLOCK_BYTES)
        return file.read(groups * DESCRIPTOR_BYTES)


def _age(made: FilesystemSpec, image: Path) -> None:
    """Set the superblock fields that mounting and using the filesystem would change."""
    free = {
        key: _number(_run("dumpe2fs", "-h", image), f"Free {key}") * (100 - USED_PERCENT) // 100
        for key in ("blocks", "inodes")
    }
    _edit(
        image,
        [
            "feature needs_recovery",
            f"set_super_value last_mounted {made.mount_point}",
            f"set_super_value mtime {MOUNTED}",
            "set_super_value mnt_count 9",
            "set_super_value kbytes_written 90000000",
            f"set_super_value free_blocks_count {free['blocks']}",
            f"set_super_value free_inodes_count {free['inodes']}",
        ],
    )


def _edit(image: Path, commands: list[str]) -> None:
    """Run commands of debugfs that write to the image."""
    script = image.with_name("commands")
    script.write_text("\n".join(commands) + "\n", encoding="utf-8")
    _run("debugfs", "-w", "-f", script, image)


def _counts(header: str) -> str:
    """Return f_frsize, f_blocks, f_bfree, f_bavail, f_files and f_ffree."""
    blocks, free = _number(header, "Block count"), _number(header, "Free blocks")
    kept = _number(header, "Reserved block count") + min(blocks // 50, LEAST_RESERVED)
    usable = blocks - _overhead(header, blocks)
    inodes = f"{_number(header, 'Inode count')} {_number(header, 'Free inodes')}"
    return f"{BLOCK_BYTES} {usable} {free} {free - kept} {inodes}"


def _overhead(header: str, blocks: int) -> int:
    """Return ext4's overhead in blocks: its field, or tables and journal after resize2fs."""
    if "Overhead clusters" in header:
        return _number(header, "Overhead clusters")
    groups = -(-blocks // GROUP_BLOCKS)
    tables = groups * (_number(header, "Inode blocks per group") + 2)
    return tables + _number(header, "Total journal blocks")


def _number(header: str, name: str) -> int:
    found = re.search(rf"^{name}: +([0-9]+)", header, re.MULTILINE)
    assert found, name
    return int(found[1])


def _run(*command: str | Path, at: str = str(WRITTEN_AT), **environment: str) -> str:
    """Run a program of e2fsprogs at a fixed time, and return its output.

    debugfs always exits with 0, and prints errors on the lines below its version.
    """
    told = {"TZ": "UTC", "LC_ALL": "C", "E2FSPROGS_FAKE_TIME": at, **environment}
    done = subprocess.run(
        command, env={**os.environ, **told}, capture_output=True, text=True, check=False
    )
    complaints = done.stderr.splitlines()[1:]
    assert done.returncode == 0, f"{command}: {complaints}"
    assert command[0] != "debugfs" or not complaints, complaints
    return done.stdout


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
"""virtio-blk reports a rotational disk, and the write cache of its host."""
EBS = {
    **NVME,
    "write_cache": "write through",
    "fua": "0",
    "discard_max_bytes": "0",
    "nr_requests": "127",
    "max_sectors_kb": "256",
    "io_timeout": "4294966296",
}
"""Amazon's network volumes, which appear as NVMe disks."""
_BYTES_PER_ASK = 64 << 10


@dataclass(frozen=True)
class Block:
    """A block device with its name, number, size and queue."""

    name: str
    number: str
    size_bytes: int
    queue: Mapping[str, str]


def disk(host: HostEvidence, block: Block, **columns: str) -> None:
    """Add a disk to a host."""
    host.disk(block.name, block.number, **block.queue)
    _sized(host, block).listed(block.name, block.number, **columns)


def partition(host: HostEvidence, block: Block, whole: str, start: int, **columns: str) -> None:
    """Add a partition to the disk with the number `whole`, starting at sector `start`."""
    host.partition(block.name, block.number, whole, start)
    for key, value in block.queue.items():
        host.file(f"/sys/dev/block/{block.number}/../queue/{key}", f"{value}\n")
    _sized(host, block).listed(block.name, block.number, **columns)


def volume(
    host: HostEvidence, block: Block, title: str, uuid: str, *, on: Block, start: int
) -> None:
    """Add a logical volume, as lvcreate(8) makes it on one physical volume."""
    host.stacked(block.name, block.number, **{on.name: on.number})
    for key, value in block.queue.items():
        host.file(f"/sys/dev/block/{block.number}/queue/{key}", f"{value}\n")
    sectors = block.size_bytes >> 9
    host.dm(block.number, title, f"LVM-{uuid}", f"0 {sectors} linear {on.number} {start}\n")
    host.node(f"/dev/disk/by-id/dm-uuid-LVM-{uuid}", block.number)
    host.answer(ListDir(f"/sys/dev/block/{on.number}/holders"), block.name)
    _sized(host, block).listed(block.name, block.number)
    host._lsblk_rows[block.name]["name"] = title


def _sized(host: HostEvidence, block: Block) -> HostEvidence:
    return host.file(f"/sys/dev/block/{block.number}/size", f"{block.size_bytes >> 9}\n")


@dataclass(frozen=True)
class MountSpec:
    """How an ext4 is mounted: its source, and the given options in addition to rw.

    `changed` maps words of its options file to others. `partuuid` is that of its partition.
    """

    mount_id: int
    source: str
    asked: tuple[str, ...] = ()
    changed: Mapping[str, str] | None = None
    partuuid: str = ""


def ext4(
    host: HostEvidence, system: System, block: Block, made: FilesystemSpec, how: MountSpec
) -> None:
    """Add an ext4 on a device, and mount it."""
    captured = capture(made)
    shown = ",".join((system.shown, *how.asked))
    point, device = made.mount_point, _path(block, how)
    host.mount(how.mount_id, block.number, point, how.source, super_options=shown)
    host.usage(point, block.number, captured.counts)
    host.options(block.name, replaced(system.options, how.changed or {}))
    host.dumpe2fs(device, captured.header)
    host.node(f"/dev/disk/by-uuid/{made.uuid}", block.number)
    row = host._lsblk_rows[block.name]
    row.update(fstype="ext4", uuid=made.uuid, label=made.label or None)
    row.update(partuuid=how.partuuid or None)
    _descriptors_healthy_devices(host, device, captured.descriptors)


def _path(block: Block, how: MountSpec) -> str:
    return how.source if block.name.startswith("dm-") else f"/dev/{block.name}"


def _descriptors_healthy_devices(host: HostEvidence, device: str, data: bytes) -> None:
    """Add the group descriptors as a scan requests them: at once, or block by block."""
    if len(data) <= _BYTES_PER_ASK:
        host.groups(device, data)
        return
    for start in range(0, len(data), BLOCK_BYTES):
        piece = data[start : start + BLOCK_BYTES]
        host.answer(ReadBytes(device, BLOCK_BYTES + start, len(piece)), piece)
