"""The probe for PRF001: how many extents a buffered write creates, read with FS_IOC_FIEMAP.

The ioctl reads the extents without writing the file back first.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ext4audit.facts import MIB
from ext4audit.facts.measurement import Figure, Measurement
from ext4audit.probing.bench import (
    Bench,
    BudgetExceeded,
    Judged,
    affected,
    fill,
    healthy,
    inconclusive,
)

FS_IOC_FIEMAP = 0xC020660B
"""_IOWR('f', 11, struct fiemap) (include/uapi/linux/fs.h)."""
LAST, DELALLOC, UNWRITTEN = 0x1, 0x4, 0x800
"""fe_flags (include/uapi/linux/fiemap.h)."""
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_AT_ONCE = 512
_WHOLE_FILE = (1 << 64) - 1
MOST_EXTENTS = 1 << 20
PART_OF_SIZE = 16
LARGEST_BYTES = 16 * MIB
SPLIT_PER_MIB = 64
"""The fewest extents per MiB of a split file: one for every few pages; 256 are one per page."""
HEALTHY = f"fewer than {SPLIT_PER_MIB} extents for each MiB, before and after writeback"


class Extent(NamedTuple):
    """One extent: its offset in the file, its length, and its flags.

    A delayed extent has no place on the device yet: delayed allocation only reserves space.
    An unwritten extent is allocated and reads as zeros until writeback has converted it.
    """

    logical_bytes: int
    length_bytes: int
    flags: int

    @property
    def is_delayed(self) -> bool:
        """Whether its space is only reserved (FIEMAP_EXTENT_DELALLOC)."""
        return bool(self.flags & DELALLOC)

    @property
    def is_unwritten(self) -> bool:
        """Whether it is allocated but not initialized (FIEMAP_EXTENT_UNWRITTEN)."""
        return bool(self.flags & UNWRITTEN)


def extents(descriptor: int) -> tuple[Extent, ...]:
    """Return the extents of an open file; raises OSError."""
    return tuple(_walk(descriptor))


def _walk(descriptor: int) -> Iterator[Extent]:
    start = count = 0
    while count < MOST_EXTENTS:
        found = _fetch(descriptor, start)
        yield from found
        if not found or found[-1].flags & LAST:
            return
        count += len(found)
        start = found[-1].logical_bytes + found[-1].length_bytes


def _fetch(descriptor: int, start: int) -> list[Extent]:
    """Return as many extents from a byte on as one call returns; raises OSError."""
    buffer = bytearray(_HEAD.size + _AT_ONCE * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, start, _WHOLE_FILE - start, 0, 0, _AT_ONCE, 0)
    fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
    return parse(bytes(buffer))


def parse(raw: bytes) -> list[Extent]:
    """Return the extents in the result buffer of the ioctl."""
    mapped = _HEAD.unpack_from(raw)[3]
    rows = (_EXTENT.unpack_from(raw, _HEAD.size + n * _EXTENT.size) for n in range(mapped))
    return [Extent(row[0], row[2], row[5]) for row in rows]


def length(found: Iterable[Extent]) -> int:
    """Return the total length of extents in bytes."""
    return sum(extent.length_bytes for extent in found)


class Split(NamedTuple):
    """The extents of a file before writeback and after it."""

    before: tuple[Extent, ...]
    after: tuple[Extent, ...]
    size_bytes: int

    @property
    def before_per_mib(self) -> float:
        """The extents per MiB before writeback."""
        return len(self.before) * MIB / self.size_bytes

    @property
    def after_per_mib(self) -> float:
        """The extents per MiB after writeback."""
        return len(self.after) * MIB / self.size_bytes


def measure(bench: Bench) -> Measurement:
    """Count a new file's extents before and after writeback; raises BudgetExceeded and OSError."""
    limits = bench.budget.limits
    size = min(LARGEST_BYTES, limits.size_bytes // PART_OF_SIZE, limits.rate) // 4096 * 4096
    if size < MIB:
        raise BudgetExceeded("a file of less than 1 MiB has too few extents to count: raise --rate")
    with bench.workspace.file("extents") as descriptor:
        started = time.perf_counter()
        fill(bench.budget, descriptor, size)
        before = extents(descriptor)
        bench.tell(0.5)
        os.fsync(descriptor)
        seconds = time.perf_counter() - started
        split = Split(before, extents(descriptor), size)
    verdict, why = judge(split)
    return Measurement("extents", "PRF001", verdict, why, HEALTHY, _figures(split, seconds))


def judge(split: Split) -> Judged:
    """Judge the extents: the defect makes one for each page, and writeback joins them again."""
    if not split.before:
        return inconclusive("the file has no extents before writeback")
    unwritten = sum(extent.is_unwritten for extent in split.before)
    if split.before_per_mib < SPLIT_PER_MIB:
        if split.after_per_mib < SPLIT_PER_MIB:
            return healthy(f"{split.before_per_mib:.1f} extents for each MiB before writeback")
        return inconclusive(
            f"writeback split the file into {split.after_per_mib:.0f} extents for each MiB: the "
            "free space is fragmented"
        )
    if split.after_per_mib >= SPLIT_PER_MIB:
        return inconclusive("the file stays split after writeback: the free space is fragmented")
    if unwritten * 2 < len(split.before):
        return inconclusive("the extents before writeback are split, and are not unwritten ones")
    return affected(
        f"{split.before_per_mib:.0f} unwritten extents for each MiB before writeback: "
        "every page is a separate extent"
    )


def _figures(split: Split, seconds: float) -> tuple[Figure, ...]:
    delayed = length(extent for extent in split.before if extent.is_delayed)
    unwritten = sum(extent.is_unwritten for extent in split.before)
    return (
        Figure("written_mib", split.size_bytes / MIB),
        Figure("extents_per_mib_before_writeback", split.before_per_mib),
        Figure("unwritten_extents_before_writeback", unwritten),
        Figure("delayed_mib_before_writeback", delayed / MIB),
        Figure("extents_per_mib_after_writeback", split.after_per_mib),
        Figure("write_and_sync_mib_per_second", split.size_bytes / MIB / seconds),
    )
