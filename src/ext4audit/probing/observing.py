"""Observation of a filesystem under its present load, without writing anything.

An observation can show a defect, but may miss one that the load does not trigger.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ext4audit.evidence import for_wording
from ext4audit.facts.measurement import Figure, Measurement, Skipped
from ext4audit.probing import ProbeResults, ProbeTarget, Progress, fsync, members, rename
from ext4audit.probing.bench import Judged, affected, healthy, in_force, inconclusive
from ext4audit.probing.counters import BlockStat, Disk, difference, differences, read_stats
from ext4audit.probing.members import Churn, NothingToMeasure
from ext4audit.probing.waits import FSYNC, RENAME, SYSCALLS, DeviceOf, Sampler, text, watch

JBD2 = Path("/proc/fs/jbd2")
PRESSURE = Path("/proc/pressure/io")
FEWEST_COMMITS = 10
WHOLE = "observe"
_TRANSACTIONS = re.compile(r"(\d+) transactions \((\d+) requested\)")
_COMMIT_TIME = re.compile(r"(\d+)us average transaction commit time")
_STALLED = re.compile(r"some .*total=(\d+)")


class Journal(NamedTuple):
    """/proc/fs/jbd2/<device>/info: commits since the mount, and their mean time recently."""

    commits: int
    requested: int
    commit_ms: float | None


class Moment(NamedTuple):
    """The counters at one moment. `stalled_usec` is from /proc/pressure/io, None without it."""

    seconds: float
    stats: Mapping[str, BlockStat]
    journal: Journal | None
    stalled_usec: int | None


class Observed(NamedTuple):
    """The differences of the counters between two moments, and the sampled waits."""

    seconds: float
    stats: Mapping[str, BlockStat]
    journal: Journal | None
    stalled_usec: int | None
    sampler: Sampler


def observe(
    subject: ProbeTarget, seconds: float, progress: Progress, device_of: DeviceOf
) -> ProbeResults:
    """Observe a filesystem for some seconds, without writing anything."""
    disks = fsync.flushed_disks_of(subject.fs)
    names = {disk.name for disk in disks} | set(_member_names(subject))
    before = _moment(subject.fs.name, names)
    device = os.fstat(subject.directory).st_dev
    sampler = watch(device, seconds, lambda part: progress(WHOLE, part), device_of)
    seen = _between(before, _moment(subject.fs.name, names), sampler)
    results = [
        _fsync(seen, disks, in_force(subject.fs, "barrier")),
        _rename(seen),
        *_members(subject, seen),
    ]
    return ProbeResults(tuple(results), tuple(_skipped(subject)), 0)


def _member_names(subject: ProbeTarget) -> Iterator[str]:
    layout = for_wording(subject.fs.layout, None) if subject.fs.layout else None
    if layout is not None:
        yield from (member.name for member in layout.members)


def _skipped(subject: ProbeTarget) -> Iterator[Skipped]:
    yield Skipped("extents", "PRF001", "it can only be measured by writing: run without --observe")
    try:
        members.layout_of(subject.fs)
    except NothingToMeasure as reason:
        yield Skipped("members", "LAY001", str(reason))


def _moment(device: str, names: set[str]) -> Moment:
    stalled = _STALLED.search(text(PRESSURE))
    usec = int(stalled[1]) if stalled else None
    return Moment(time.monotonic(), read_stats(names), _journal(device), usec)


def _journal(device: str) -> Journal | None:
    """Return the journal of a device; its name in /proc ends with the journal's inode number."""
    name = device.replace("/", "!")
    try:
        found = [path for path in JBD2.iterdir() if path.name.rpartition("-")[0] == name]
    except OSError:
        return None
    return parse_journal(text(found[0] / "info")) if len(found) == 1 else None


def parse_journal(info: str) -> Journal | None:
    """Parse a jbd2 info file; return None for any other text."""
    counts, mean = _TRANSACTIONS.search(info), _COMMIT_TIME.search(info)
    if counts is None:
        return None
    return Journal(int(counts[1]), int(counts[2]), int(mean[1]) / 1000 if mean else None)


def _between(before: Moment, after: Moment, sampler: Sampler) -> Observed:
    journal = after.journal
    if journal is not None and before.journal is not None:
        journal = Journal(
            journal.commits - before.journal.commits,
            journal.requested - before.journal.requested,
            journal.commit_ms,
        )
    stalled = difference(after.stalled_usec, before.stalled_usec)
    seconds = after.seconds - before.seconds
    return Observed(seconds, differences(before.stats, after.stats), journal, stalled, sampler)


def _fsync(seen: Observed, disks: Sequence[Disk], barrier: str) -> Measurement:
    verdict, why = judge_commits(seen.journal, seen.stats, disks, barrier)
    journal = seen.journal or Journal(0, 0, None)
    waits = seen.sampler.here(FSYNC)
    figures = (
        Figure("journal_commits", journal.commits if seen.journal else None),
        Figure("requested_commits", journal.requested if seen.journal else None),
        Figure("mean_commit_ms", journal.commit_ms),
        Figure("samples", seen.sampler.samples),
        Figure("tasks_seen_waiting_in_fsync", waits.tasks),
        Figure("longest_unbroken_fsync_seconds", waits.longest_seconds),
    )
    devices = tuple(
        seen.stats[disk.name].figures(disk.name) for disk in disks if disk.name in seen.stats
    )
    return Measurement("fsync", "DUR001", verdict, why, fsync.HEALTHY, figures, devices)


def judge_commits(
    journal: Journal | None, stats: Mapping[str, BlockStat], disks: Sequence[Disk], barrier: str
) -> Judged:
    """Judge the flushes by the commits of the journal: each commit should cause at least one."""
    volatile = {
        disk.name: stats[disk.name].flushes
        for disk in disks
        if disk.needs_flushes and disk.name in stats and stats[disk.name].writes >= fsync.FEWEST
    }
    counted = {name: count for name, count in volatile.items() if count is not None}
    if journal is None:
        return inconclusive("the kernel shows no journal of this filesystem")
    if journal.commits < FEWEST_COMMITS:
        return inconclusive(f"{journal.commits} commits of the journal are too few")
    if not counted:
        return inconclusive("no disk with a volatile cache was written and counts flushes")
    dry = [name for name, count in counted.items() if count <= fsync.UNFLUSHED * journal.commits]
    if dry:
        return affected(f"{journal.commits} commits flushed nothing on {', '.join(dry)}")
    is_complete = len(counted) == len(volatile)
    if (
        barrier == "barrier"
        and is_complete
        and min(counted.values()) >= fsync.FLUSHED * journal.commits
    ):
        return healthy(f"{journal.commits} commits, {min(counted.values())} flushes")
    return inconclusive("flushes were seen, but other programs may have caused them")


def _rename(seen: Observed) -> Measurement:
    here = seen.sampler.here(RENAME)
    if os.uname().machine not in SYSCALLS:
        verdict, why = inconclusive("the numbers of system calls on this machine are not known")
    elif here.longest_seconds > rename.LONGEST_SECONDS:
        verdict, why = affected(f"all samples of {here.longest_seconds:.1f} s show one rename")
    elif here.tasks:
        verdict, why = healthy(f"{here.tasks} tasks waited in a rename, none of them long")
    else:
        verdict, why = inconclusive("no task was seen waiting in a rename on this filesystem")
    share = None if seen.stalled_usec is None else seen.stalled_usec / seen.seconds / 1e4
    figures = (
        Figure("samples", seen.sampler.samples),
        Figure("tasks_seen_waiting_in_rename", here.tasks),
        Figure("longest_unbroken_rename_seconds", here.longest_seconds),
        Figure("tasks_seen_waiting_in_rename_anywhere", seen.sampler.anywhere(RENAME)),
        Figure("time_with_tasks_stalled_on_io_percent", share),
    )
    return Measurement("rename", "PRF002", verdict, why, rename.HEALTHY, figures)


def _members(subject: ProbeTarget, seen: Observed) -> Iterator[Measurement]:
    try:
        layout = members.layout_of(subject.fs)
    except NothingToMeasure:
        return
    own = {member.name for member in layout.members}
    counted = {name: stat for name, stat in seen.stats.items() if name in own}
    churn = Churn(members.member_figures(layout, counted), 0)
    verdict, why = members.judge(churn, layout.evenness)
    figures = members.figures_of(churn, layout)
    yield Measurement("members", "LAY001", verdict, why, members.HEALTHY, figures, churn.members)
