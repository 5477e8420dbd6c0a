"""The probe for DUR001: how long fsync() takes, and whether it flushes the disk's write cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ext4audit.evidence import for_wording
from ext4audit.facts.host import Filesystem
from ext4audit.facts.measurement import Figure, Measurement, ProbeVerdict
from ext4audit.probing.bench import (
    Bench,
    BudgetExceeded,
    Judged,
    affected,
    fill,
    healthy,
    in_force,
    inconclusive,
    latency_figures,
    write_all,
)
from ext4audit.probing.counters import Disk, differences, flushed_disks, read_stats

APPEND_BYTES = 4096
OVERWRITE_BYTES = 8192
"""One page of PostgreSQL, as pg_test_fsync(1) writes it."""
FILE_BYTES = 2 << 20
MOST_APPENDS, MOST_OVERWRITES = 512, 256
FEWEST = 10
"""The fewest fsyncs, and the fewest writes of a disk that has to be flushed: a spare of an array
gets none, and no flush either."""
IDLE_SECONDS = 0.5
APPEND_PART = 0.6
"""The fraction of the time that appends may take."""
FLUSHED, UNFLUSHED = 0.9, 0.1
"""Flushes per fsync: at least `FLUSHED` if the disk is flushed, at most `UNFLUSHED` if not."""
HEALTHY = "at least 1 flush for each fsync on every disk with a volatile write cache"


class Flushes(NamedTuple):
    """The flushes that a disk completed per fsync, those expected of others, and its writes."""

    disk: Disk
    per_fsync: float | None
    foreign_per_fsync: float
    writes: int


class _Phase(NamedTuple):
    """The latencies of one kind of write, and the total time, all in seconds."""

    latencies: tuple[float, ...]
    seconds: float


def measure(bench: Bench) -> Measurement:
    """Append with fsync, then overwrite with fdatasync; raises BudgetExceeded and OSError."""
    disks = flushed_disks_of(bench.fs)
    names = [disk.name for disk in disks]
    idle = read_stats(names)
    idle_seconds = bench.budget.pause(IDLE_SECONDS)
    before = read_stats(names)
    appends = _appends(bench)
    after = read_stats(names)
    overwrites = _overwrites(bench)
    others = differences(idle, before)
    counted = differences(before, after)
    flushes = tuple(
        Flushes(
            disk,
            _ratio(counted[disk.name].flushes, len(appends.latencies)),
            (others[disk.name].flushes or 0)
            * (appends.seconds / idle_seconds)
            / max(1, len(appends.latencies)),
            counted[disk.name].writes,
        )
        for disk in disks
        if disk.name in counted and disk.name in others
    )
    verdict, why = judge(flushes, len(appends.latencies), in_force(bench.fs, "barrier"))
    figures = (*_figures(appends, overwrites), *_flush_figures(flushes))
    return Measurement("fsync", "DUR001", verdict, why, HEALTHY, figures)


def flushed_disks_of(fs: Filesystem) -> tuple[Disk, ...]:
    """Return the disks that receive a filesystem's flushes, empty if a stack is unknown.

    An external journal is flushed too: the commits are there.
    """
    stacks = [fs.stack] if fs.journal_stack is None else [fs.stack, fs.journal_stack]
    known = [stack for each in stacks if (stack := for_wording(each, None)) is not None]
    if len(known) < len(stacks):
        return ()
    return tuple(dict.fromkeys(disk for stack in known for disk in flushed_disks(stack)))


def judge(flushes: Sequence[Flushes], fsyncs: int, barrier: str) -> Judged:
    """Judge the flushes per fsync; `barrier` is the option token in force, empty if unknown."""
    if fsyncs < FEWEST:
        return inconclusive(f"only {fsyncs} fsyncs fit into the limits")
    volatile = [each for each in flushes if each.disk.needs_flushes]
    if flushes and not volatile:
        return _judge_write_through(flushes, barrier)
    uncounted = [each for each in volatile if each.per_fsync is None]
    if len(uncounted) == len(volatile):
        return inconclusive("no device below the filesystem counts flushes (Linux 5.5 does)")
    written = [each for each in volatile if each not in uncounted and each.writes >= FEWEST]
    if not written:
        return inconclusive(f"{_names(volatile)} completed fewer than {FEWEST} writes")
    found = _judge_volatile(written, fsyncs, barrier)
    if uncounted and found.verdict is ProbeVerdict.HEALTHY:
        return inconclusive(f"{found.why}; no flushes are counted by {_names(uncounted)}")
    return found


def _judge_write_through(flushes: Sequence[Flushes], barrier: str) -> Judged:
    names = _names(flushes)
    if barrier == "barrier":
        return healthy(f"no volatile write cache: {names} report write through")
    return inconclusive(
        f"{names} report write through: no flush is needed, with or without barriers"
    )


def _judge_volatile(volatile: Sequence[Flushes], fsyncs: int, barrier: str) -> Judged:
    dry = [each for each in volatile if (each.per_fsync or 0) <= UNFLUSHED]
    if dry:
        return affected(f"{fsyncs} fsyncs flushed nothing on {_names(dry)}")
    own = [(each.per_fsync or 0) - each.foreign_per_fsync for each in volatile]
    if min(own) < FLUSHED:
        return inconclusive("other programs flush the same disk: the flushes cannot be assigned")
    if barrier == "nobarrier":
        return inconclusive("nobarrier is in force, and the disk is flushed: by other programs")
    return healthy(f"each fsync flushed {_names(volatile)}")


def _names(flushes: Sequence[Flushes]) -> str:
    return ", ".join(each.disk.name for each in flushes)


def _ratio(count: int | None, of: int) -> float | None:
    return None if count is None or not of else count / of


def _appends(bench: Bench) -> _Phase:
    piece = os.urandom(APPEND_BYTES)
    with bench.workspace.file("append", os.O_APPEND) as descriptor:

        def append(_number: int) -> float:
            bench.budget.spend(APPEND_BYTES)
            started = time.perf_counter()
            write_all(descriptor, piece)
            os.fsync(descriptor)
            return time.perf_counter() - started

        share = bench.budget.seconds_left() * APPEND_PART
        return _repeat(bench, append, min(MOST_APPENDS, _room(bench, APPEND_BYTES)), share)


def _overwrites(bench: Bench) -> _Phase:
    """Overwrite allocated and initialized pages, so that only data has to be written."""
    piece = os.urandom(OVERWRITE_BYTES)
    with bench.workspace.file("overwrite") as descriptor:
        size = min(FILE_BYTES, _room(bench, 1))
        fill(bench.budget, descriptor, size)
        os.fsync(descriptor)

        def overwrite(number: int) -> float:
            bench.budget.spend(OVERWRITE_BYTES)
            started = time.perf_counter()
            os.pwrite(descriptor, piece, number * OVERWRITE_BYTES % size)
            os.fdatasync(descriptor)
            return time.perf_counter() - started

        most = min(MOST_OVERWRITES, _room(bench, OVERWRITE_BYTES))
        return _repeat(bench, overwrite, most, bench.budget.seconds_left())


def _room(bench: Bench, piece_bytes: int) -> int:
    """Return how many pieces fit into a sixteenth of the size limit."""
    return bench.budget.limits.size_bytes // 16 // piece_bytes


def _repeat(bench: Bench, once: Callable[[int], float], most: int, seconds: float) -> _Phase:
    """Repeat a write until the number or the time is reached; the first one is not counted."""
    once(0)
    latencies: list[float] = []
    started = time.perf_counter()
    try:
        while len(latencies) < most:
            latencies.append(once(len(latencies)))
            bench.tell(len(latencies) / most)
            if time.perf_counter() - started > seconds:
                break
    except BudgetExceeded:
        pass
    return _Phase(tuple(latencies), time.perf_counter() - started)


def _figures(appends: _Phase, overwrites: _Phase) -> tuple[Figure, ...]:
    return (
        Figure("fsyncs", len(appends.latencies)),
        *latency_figures("append_fsync", appends.latencies),
        Figure("append_fsync_per_second", _rate(appends)),
        Figure("fdatasyncs", len(overwrites.latencies)),
        *latency_figures("overwrite_fdatasync", overwrites.latencies),
        Figure("overwrite_fdatasync_per_second", _rate(overwrites)),
    )


def _rate(phase: _Phase) -> float | None:
    total = sum(phase.latencies)
    return len(phase.latencies) / total if total else None


def _flush_figures(flushes: Sequence[Flushes]) -> tuple[Figure, ...]:
    return tuple(
        figure
        for each in flushes
        for figure in (
            Figure(f"flushes_per_fsync_{each.disk.name}", each.per_fsync),
            Figure(f"foreign_flushes_per_fsync_{each.disk.name}", each.foreign_per_fsync),
        )
    )
