"""The counters of block devices: /sys/class/block/<device>/stat, and the devices to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ext4audit.evidence import for_wording
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.measurement import MemberFigures
from ext4audit.layout import is_leaf_device

SYS_BLOCK = Path("/sys/class/block")
_READS, _WRITES, _WRITTEN, _WRITE_MS, _FLUSHES, _FLUSH_MS = 0, 4, 6, 7, 15, 16
"""Field indices in stat; a sector is 512 bytes on every device (Documentation/block/stat.rst)."""
_SHORTEST = 11
_NAMESPACE = re.compile(r"nvme(\d+)n(\d+)")
_MULTIPATH = "mpath-"


class BlockStat(NamedTuple):
    """The requests that a device has completed since it was attached.

    `flushes` and `flush_ms` are None if they are not counted: before Linux 5.5, by a partition,
    whose disk counts them, and by a device without request queues (pmem, drbd, a ZFS volume).
    """

    reads: int
    writes: int
    written_bytes: int
    write_ms: int
    flushes: int | None
    flush_ms: int | None

    def since(self, before: BlockStat) -> BlockStat:
        """Return the differences from an earlier reading."""
        return BlockStat(
            self.reads - before.reads,
            self.writes - before.writes,
            self.written_bytes - before.written_bytes,
            self.write_ms - before.write_ms,
            difference(self.flushes, before.flushes),
            difference(self.flush_ms, before.flush_ms),
        )

    @property
    def write_wait_ms(self) -> float | None:
        """The mean time of a write request, None if there are none."""
        return self.write_ms / self.writes if self.writes else None

    @property
    def flush_wait_ms(self) -> float | None:
        """The mean time of a flush request, None if there are none."""
        return self.flush_ms / self.flushes if self.flushes and self.flush_ms is not None else None

    def figures(self, name: str) -> MemberFigures:
        """Return the counters as figures of the device `name`."""
        return MemberFigures(
            name,
            self.writes,
            self.written_bytes,
            self.flushes,
            self.write_wait_ms,
            self.flush_wait_ms,
        )


def difference(now: int | None, before: int | None) -> int | None:
    """Return how much a counter has grown, None if it is not available."""
    return None if now is None or before is None else now - before


def parse_stat(text: str) -> BlockStat:
    """Parse a stat file; raises ValueError for any other text."""
    fields = [int(word) for word in text.split()]
    if len(fields) < _SHORTEST:
        raise ValueError(f"{len(fields)} fields where at least {_SHORTEST} are expected")
    has_flushes = len(fields) > _FLUSH_MS
    return BlockStat(
        fields[_READS],
        fields[_WRITES],
        fields[_WRITTEN] * SECTOR_BYTES,
        fields[_WRITE_MS],
        fields[_FLUSHES] if has_flushes else None,
        fields[_FLUSH_MS] if has_flushes else None,
    )


def read_stats(names: Iterable[str], root: Path = SYS_BLOCK) -> dict[str, BlockStat]:
    """Return the counters of devices by name, without devices that cannot be read."""
    found = ((name, _read_device(root / name)) for name in names)
    return {name: stat for name, stat in found if stat is not None}


def _read_device(device: Path) -> BlockStat | None:
    """Return the counters of a device, with those that only its paths have."""
    own = _read_stat(device)
    paths = [stat for path in _paths(device) if (stat := _read_stat(path)) is not None]
    if own is None or not paths:
        return own
    # An NVMe namespace with several paths counts nothing itself in Linux 6.1.
    requests = _total(paths) if _NAMESPACE.fullmatch(device.name) else own
    flushed = _total([own, *paths])
    return requests._replace(flushes=flushed.flushes, flush_ms=flushed.flush_ms)


def _total(stats: Sequence[BlockStat]) -> BlockStat:
    flushes = [each.flushes for each in stats if each.flushes is not None]
    flush_ms = [each.flush_ms for each in stats if each.flush_ms is not None]
    return BlockStat(
        sum(each.reads for each in stats),
        sum(each.writes for each in stats),
        sum(each.written_bytes for each in stats),
        sum(each.write_ms for each in stats),
        sum(flushes) if flushes else None,
        sum(flush_ms) if flush_ms else None,
    )


def _read_stat(device: Path) -> BlockStat | None:
    """Return the counters of one device; only one with request queues counts its flushes."""
    try:
        found = parse_stat((device / "stat").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if (device / "mq").is_dir() else found._replace(flushes=None, flush_ms=None)


def _paths(device: Path) -> Iterator[Path]:
    """Yield the paths of a multipath device, any of which may count a flush.

    A map of dm-multipath counts it itself if it queues requests, which is the default, and the
    path that is used counts it if the map has queue_mode bio. NVMe always counts it on the path.
    """
    if found := _NAMESPACE.fullmatch(device.name):
        yield from device.parent.glob(f"nvme{found[1]}c*n{found[2]}")
    try:
        if (device / "dm/uuid").read_text(encoding="utf-8").startswith(_MULTIPATH):
            yield from (device.parent / path.name for path in (device / "slaves").iterdir())
    except OSError:  # it is not device mapper
        return


def differences(
    before: Mapping[str, BlockStat], after: Mapping[str, BlockStat]
) -> dict[str, BlockStat]:
    """Return the differences between two readings by device name."""
    return {name: after[name].since(stat) for name, stat in before.items() if name in after}


class Disk(NamedTuple):
    """A device that counts flushes; `write_cache` is as the kernel reports it, None if unknown."""

    name: str
    write_cache: str | None

    @property
    def needs_flushes(self) -> bool:
        """Whether it has a volatile cache or may have one."""
        return self.write_cache != "write through"


def flushed_disks(stack: BlockDevice) -> tuple[Disk, ...]:
    """Return the devices that receive a filesystem's flushes: disks, loop and multipath devices.

    md, other device mapper and partitions do not count flushes (block/blk-flush.c), so the search
    goes on below them. It ends at a loop device, as others flush the disk below it too.
    """
    found: dict[str, Disk] = {}
    for device in stack.descend(is_leaf_device):
        if is_leaf_device(device) or not device.known_below:
            cache = for_wording(device.queue.write_cache, "")
            found[device.name] = Disk(device.name, cache or None)
    return tuple(found.values())
