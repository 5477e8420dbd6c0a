"""How many extents a buffered write becomes, before and after writeback (PRF001)."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from ext4audit.facts.measurement import Figure, Measurement
from ext4audit.probing.bench import MIB, Bench, Judged, affected, healthy, inconclusive
from ext4audit.probing.budget import fill
from ext4audit.probing.fiemap import Extent, extents, length

PART_OF_SIZE = 16
LARGEST_BYTES = 16 * MIB
SPLIT_PER_MIB = 64
"""Extents for each MiB from which on every few pages are one: 256 are one for each page."""
HEALTHY = f"fewer than {SPLIT_PER_MIB} extents for each MiB, before and after writeback"


class Split(NamedTuple):
    """The extents of a file before writeback and after it."""

    before: tuple[Extent, ...]
    after: tuple[Extent, ...]
    size_bytes: int

    @property
    def before_per_mib(self) -> float:
        """Extents for each MiB before writeback."""
        return len(self.before) * MIB / self.size_bytes

    @property
    def after_per_mib(self) -> float:
        """Extents for each MiB after writeback."""
        return len(self.after) * MIB / self.size_bytes


def measure(bench: Bench) -> Measurement:
    """Write through the page cache, and count extents; raises Spent and OSError."""
    limits = bench.budget.limits
    size = min(LARGEST_BYTES, limits.size_bytes // PART_OF_SIZE, limits.rate) // 4096 * 4096
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
    """Judge the extents: the defect makes one of each page, and writeback joins them again."""
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
