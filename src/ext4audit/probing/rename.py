"""The probe for PRF002: how long a rename over a file waits for the dirty data of the new file."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit.evidence import for_wording
from ext4audit.facts import MIB
from ext4audit.facts.devices import SECTOR_BYTES
from ext4audit.facts.measurement import Figure, Measurement
from ext4audit.probing.bench import (
    Bench,
    Judged,
    affected,
    fill,
    healthy,
    inconclusive,
    milliseconds,
    percentile,
)
from ext4audit.probing.extents import extents, length

LARGEST_BYTES = 96 * MIB
PART_OF_SIZE = 0.375
READ_FILE_BYTES = 8 * MIB
READ_BYTES = 4096
LONGEST_SECONDS = 2.0
"""The longest healthy wait of a rename; PRF002 reports longer ones."""
SUBMITTED_PART = 0.05
"""A rename that takes a smaller fraction of the time until all data is on disk did not wait."""
STILL_DELAYED = 0.5
PROJECTED_BYTES = 1024 * MIB
"""The file size for which the wait is projected, as in the estimate of PRF002."""
HEALTHY = f"a rename over a file blocks for at most {LONGEST_SECONDS:g} s, also for one of 1 GiB"


class Stall(NamedTuple):
    """One rename: how long it took, and how long writing the rest of the data took afterwards.

    `delayed_bytes` are the bytes in delayed allocation before it, `kept_bytes` those after it.
    """

    load: str
    size_bytes: int
    seconds: float
    rest_seconds: float
    delayed_bytes: int
    kept_bytes: int
    reads: tuple[float, ...] = ()

    @property
    def bytes_per_second(self) -> float:
        """The rate at which the data reached the disk."""
        return self.size_bytes / max(self.seconds + self.rest_seconds, 1e-6)

    @property
    def submitted_bytes(self) -> float:
        """The bytes that were submitted but not yet on the disk when the rename returned."""
        return self.rest_seconds * self.bytes_per_second

    def projected_seconds(self, file_bytes: int) -> float:
        """Return how long a rename would wait with this much dirty data in one file."""
        return max(0.0, file_bytes - self.submitted_bytes) / self.bytes_per_second


def measure(bench: Bench) -> Measurement:
    """Rename a dirty file over another, first alone and then with a concurrent reader.

    Raises BudgetExceeded and OSError.
    """
    size = _size(bench)
    with _file_to_read(bench):
        stalls = [_stall(bench, "idle", size)]
        bench.tell(0.5)
        with _reader(bench) as reads:
            stalls.append(_stall(bench, "reading", size))
        stalls[-1] = stalls[-1]._replace(reads=tuple(reads))
    largest = largest_file_bytes(bench)
    verdict, why = judge(stalls, largest)
    return Measurement("rename", "PRF002", verdict, why, HEALTHY, _figures(stalls, largest))


def largest_file_bytes(bench: Bench) -> int | None:
    """Return the projected file size, capped by dirty limit and device; None if not known."""
    memory = for_wording(bench.host.memory, None)
    if memory is None:
        return None
    stack = for_wording(bench.fs.stack, None)
    sectors = for_wording(stack.size_sectors, 0) if stack else 0
    most = min(PROJECTED_BYTES, memory.dirty_limit_bytes)
    return min(most, sectors * SECTOR_BYTES or most)


def judge(stalls: Sequence[Stall], largest_bytes: int | None) -> Judged:
    """Judge the worst rename and the wait for a file of `largest_bytes`, None if unknown."""
    if all(each.delayed_bytes == 0 for each in stalls):
        return healthy("delayed allocation is off: a rename has no data to submit")
    if any(each.delayed_bytes < each.size_bytes * STILL_DELAYED for each in stalls):
        return inconclusive("the kernel wrote the file before it was renamed")
    if all(each.kept_bytes >= each.delayed_bytes * STILL_DELAYED for each in stalls):
        return healthy("the rename submitted no data: auto_da_alloc has no effect")
    worst = max(stalls, key=lambda each: each.seconds)
    measured = (
        f"a rename of {worst.size_bytes // MIB} MiB waited {worst.seconds:.2f} s ({worst.load})"
    )
    if worst.seconds > LONGEST_SECONDS:
        return affected(measured)
    if largest_bytes is None:
        return inconclusive(f"{measured}; the dirty limit is unknown")
    return _judge_projected(stalls, largest_bytes, measured)


def _judge_projected(stalls: Sequence[Stall], largest_bytes: int, measured: str) -> Judged:
    slowest = max(stalls, key=lambda each: each.projected_seconds(largest_bytes))
    projected = slowest.projected_seconds(largest_bytes)
    more = f"{measured}; at this speed ~{projected:.1f} s for {largest_bytes // MIB} MiB"
    if projected <= LONGEST_SECONDS:
        return healthy(more)
    if slowest.seconds < SUBMITTED_PART * (slowest.seconds + slowest.rest_seconds):
        return inconclusive(f"{measured}: the queue took the whole file, so raise --size")
    return affected(more)


def _size(bench: Bench) -> int:
    """Return the file size: within the limits, and too small to start background writeback."""
    limits = bench.budget.limits
    size = min(LARGEST_BYTES, int(limits.size_bytes * PART_OF_SIZE), limits.rate)
    memory = for_wording(bench.host.memory, None)
    if memory is not None:
        ratio = memory.available_bytes * memory.dirty_background_ratio_percent // 100
        size = min(size, (memory.dirty_background_bytes or ratio) // 2)
    return max(MIB, size // MIB * MIB)


def _stall(bench: Bench, load: str, size: int) -> Stall:
    """Write a file, rename it over another, and time the rename and the rest of the writeback."""
    space = bench.workspace
    old = space.create("old")
    try:
        fill(bench.budget, old, READ_BYTES)
        os.fsync(old)
    finally:
        os.close(old)
    with space.file("new") as descriptor:
        fill(bench.budget, descriptor, size)
        delayed = _delayed(descriptor)
        started = time.perf_counter()
        space.replace("new", "old")
        renamed = time.perf_counter()
        kept = _delayed(descriptor)
        os.fsync(descriptor)
        ended = time.perf_counter()
    space.discard("old")
    return Stall(load, size, renamed - started, ended - renamed, delayed, kept)


def _delayed(descriptor: int) -> int:
    return length(extent for extent in extents(descriptor) if extent.is_delayed)


@contextlib.contextmanager
def _file_to_read(bench: Bench) -> Iterator[None]:
    """Write the file that the reader reads, and remove it afterwards."""
    size = min(READ_FILE_BYTES, bench.budget.limits.size_bytes // 16 // MIB * MIB or MIB)
    with bench.workspace.file("read") as descriptor:
        fill(bench.budget, descriptor, size)
        os.fsync(descriptor)
        yield


@contextlib.contextmanager
def _reader(bench: Bench) -> Iterator[list[float]]:
    """Read small blocks with O_DIRECT in a thread; yield the list of latencies in seconds.

    Writeback throttling protects readers, and keeps the queue short as long as there are any.
    """
    latencies: list[float] = []
    stop = threading.Event()
    descriptor = bench.workspace.reopen("read", os.O_RDONLY | os.O_DIRECT)
    blocks = os.fstat(descriptor).st_size // READ_BYTES
    reader = threading.Thread(target=_read, args=(descriptor, blocks, stop, latencies))
    reader.start()
    try:
        yield latencies
    finally:
        stop.set()
        reader.join()
        os.close(descriptor)


def _read(descriptor: int, blocks: int, stop: threading.Event, latencies: list[float]) -> None:
    chance = random.Random(1)  # noqa: S311 - a choice of blocks
    with mmap.mmap(-1, READ_BYTES) as buffer, contextlib.suppress(OSError):
        while not stop.is_set():
            started = time.perf_counter()
            os.preadv(descriptor, [buffer], chance.randrange(blocks) * READ_BYTES)
            latencies.append(time.perf_counter() - started)


def _figures(stalls: Sequence[Stall], largest: int | None) -> tuple[Figure, ...]:
    figures = [
        figure
        for each in stalls
        for figure in (
            Figure(f"rename_{each.load}_seconds", each.seconds),
            Figure(f"written_{each.load}_mib_per_second", each.bytes_per_second / MIB),
            Figure(f"queue_{each.load}_mib", each.submitted_bytes / MIB),
        )
    ]
    reads = [latency for each in stalls for latency in each.reads]
    return (
        Figure("file_mib", stalls[0].size_bytes / MIB),
        *figures,
        Figure("reads", len(reads)),
        Figure("read_p99_ms", milliseconds(percentile(reads, 99))),
        Figure("projected_file_mib", None if largest is None else largest / MIB),
        Figure(
            "projected_stall_seconds",
            None if largest is None else max(each.projected_seconds(largest) for each in stalls),
        ),
    )
