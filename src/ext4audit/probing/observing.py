"""Observation of a filesystem under its present load, without writing anything.

An observation can show a defect, but may miss one that the load does not trigger.

Tasks that wait in fsync or rename are sampled from /proc without tracing: a task in
uninterruptible sleep shows its system call in /proc/<pid>/task/<tid>/syscall, to root and to its
own user. A wait that begins and ends between two samples is not seen.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ext4audit.evidence import for_wording
from ext4audit.facts.measurement import Figure, Measurement, Skipped
from ext4audit.probing import ProbeResults, ProbeTarget, Progress, fsync, members, rename
from ext4audit.probing.bench import Judged, affected, healthy, in_force, inconclusive
from ext4audit.probing.counters import BlockStat, Disk, difference, differences, read_stats
from ext4audit.probing.members import Churn, NothingToMeasure

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


def observe(subject: ProbeTarget, seconds: float, progress: Progress) -> ProbeResults:
    """Observe a filesystem for some seconds, without writing anything."""
    disks = fsync.flushed_disks_of(subject.fs)
    names = {disk.name for disk in disks} | set(_member_names(subject))
    before = _moment(subject.fs.name, names)
    device = os.fstat(subject.directory).st_dev
    sampler = watch(device, seconds, lambda part: progress(WHOLE, part))
    seen = _between(before, _moment(subject.fs.name, names), seconds, sampler)
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
    stalled = _STALLED.search(_text(PRESSURE))
    return Moment(read_stats(names), _journal(device), int(stalled[1]) if stalled else None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _journal(device: str) -> Journal | None:
    """Return the journal of a device; its name in /proc ends with the journal's inode number."""
    name = device.replace("/", "!")
    try:
        found = [path for path in JBD2.iterdir() if path.name.rpartition("-")[0] == name]
    except OSError:
        return None
    return parse_journal(_text(found[0] / "info")) if len(found) == 1 else None


def parse_journal(text: str) -> Journal | None:
    """Parse a jbd2 info file; return None for any other text."""
    counts, mean = _TRANSACTIONS.search(text), _COMMIT_TIME.search(text)
    if counts is None:
        return None
    return Journal(int(counts[1]), int(counts[2]), int(mean[1]) / 1000 if mean else None)


def _between(before: Moment, after: Moment, seconds: float, sampler: Sampler) -> Observed:
    journal = after.journal
    if journal is not None and before.journal is not None:
        journal = Journal(
            journal.commits - before.journal.commits,
            journal.requested - before.journal.requested,
            journal.commit_ms,
        )
    stalled = difference(after.stalled_usec, before.stalled_usec)
    return Observed(seconds, differences(before.stats, after.stats), journal, stalled, sampler)


def _fsync(seen: Observed, disks: Sequence[Disk], barrier: str) -> Measurement:
    verdict, why = judge_commits(seen.journal, seen.stats, disks, barrier)
    journal = seen.journal or Journal(0, 0, None)
    waits = seen.sampler.of("fsync", on_filesystem=True)
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
        if disk.needs_flushes and disk.name in stats
    }
    counted = {name: count for name, count in volatile.items() if count is not None}
    if journal is None:
        return inconclusive("the kernel shows no journal of this filesystem")
    if journal.commits < FEWEST_COMMITS:
        return inconclusive(f"{journal.commits} commits of the journal are too few")
    if not counted:
        return inconclusive("no disk with a volatile cache counts flushes")
    dry = [name for name, count in counted.items() if count <= fsync.UNFLUSHED * journal.commits]
    if dry:
        return affected(f"{journal.commits} commits flushed nothing on {', '.join(dry)}")
    if barrier == "barrier" and min(counted.values()) >= fsync.FLUSHED * journal.commits:
        return healthy(f"{journal.commits} commits, {min(counted.values())} flushes")
    return inconclusive("flushes were seen, but other programs may have caused them")


def _rename(seen: Observed) -> Measurement:
    here = seen.sampler.of("rename", on_filesystem=True)
    elsewhere = seen.sampler.of("rename", on_filesystem=None)
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
        Figure("tasks_seen_waiting_in_rename_anywhere", here.tasks + elsewhere.tasks),
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


PROC = Path("/proc")
SYSCALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {74: "fsync", 75: "fsync", 82: "rename", 264: "rename", 316: "rename"},
    "aarch64": {82: "fsync", 83: "fsync", 38: "rename", 276: "rename"},
}
"""fsync, fdatasync, rename, renameat and renameat2 by machine (arch/*/…/syscall*.tbl)."""
INTERVAL_SECONDS = 0.2
BUSY_PART = 0.1
"""The fraction of the time that sampling may take."""
MOST_TASKS = 20_000


class Wait(NamedTuple):
    """One task in one system call. `on_filesystem` is None if its filesystem is not known."""

    task: str
    call: str
    on_filesystem: bool | None


class Waits(NamedTuple):
    """The waits in one system call: how many tasks waited, and the longest unbroken wait.

    `longest_seconds` is the longest time in which every sample found the same task in the call.
    It is one long wait or many short ones in a row: the kernel does not show which.
    """

    tasks: int = 0
    longest_seconds: float = 0.0


class Sampler:
    """Joins samples into waits, on the filesystem or on an unknown one."""

    def __init__(self) -> None:
        self.samples = 0
        self._since: dict[Wait, float] = {}
        self._longest: dict[Wait, float] = {}

    def add(self, now: float, waiting: frozenset[Wait]) -> None:
        """Add a sample, taken at a reading of a monotonic clock."""
        self.samples += 1
        self._since = {wait: self._since.get(wait, now) for wait in waiting}
        for wait, since in self._since.items():
            self._longest[wait] = max(self._longest.get(wait, 0.0), now - since)

    def of(self, call: str, *, on_filesystem: bool | None) -> Waits:
        """Return the waits in one system call, on the filesystem or on an unknown one (None)."""
        found = [
            seconds
            for wait, seconds in self._longest.items()
            if wait.call == call and wait.on_filesystem is on_filesystem
        ]
        return Waits(len(found), max(found, default=0.0))


def sample(
    device: int, machine: str, proc: Path = PROC, stat: Callable[[str], os.stat_result] = os.stat
) -> frozenset[Wait]:
    """Return the tasks that are waiting now; `device` is the filesystem's st_dev.

    `stat` is os.stat, which follows the links in /proc/<pid>/fd.
    """
    calls = SYSCALLS.get(machine, {})
    found = (_wait(task, device, calls, stat) for task in _sleeping(proc))
    return frozenset(wait for wait in found if wait is not None and wait.on_filesystem is not False)


def _sleeping(proc: Path) -> Iterator[Path]:
    """Yield the tasks in uninterruptible sleep."""
    tasks = (
        task
        for process in proc.iterdir()
        if process.name.isdecimal()
        for task in _listed(process / "task")
    )
    for _, task in zip(range(MOST_TASKS), tasks, strict=False):
        if _text(task / "stat").rpartition(")")[2].split()[:1] == ["D"]:
            yield task


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def _wait(
    task: Path, device: int, calls: Mapping[int, str], stat: Callable[[str], os.stat_result]
) -> Wait | None:
    """Parse a task's syscall file: the call's number, and its first argument in hexadecimal."""
    words = _text(task / "syscall").split()
    call = calls.get(int(words[0])) if len(words) > 1 and words[0].isdecimal() else None
    if call is None:
        return None
    place = f"fd/{int(words[1], 16)}" if call == "fsync" else "cwd"
    found = _st_dev(task / place, stat)
    # A path can lead anywhere from the working directory, so another device proves nothing.
    same = None if found is None or (call == "rename" and found != device) else found == device
    return Wait(task.name, call, same)


def _st_dev(path: Path, stat: Callable[[str], os.stat_result]) -> int | None:
    try:
        return stat(str(path)).st_dev
    except OSError:
        return None


def watch(device: int, seconds: float, tell: Callable[[float], None]) -> Sampler:
    """Sample for some seconds; `tell` is called with the fraction of the time that has passed."""
    sampler = Sampler()
    machine = os.uname().machine
    started = now = time.monotonic()
    while now - started < seconds:
        sampler.add(now, sample(device, machine))
        took = time.monotonic() - now
        left = started + seconds - time.monotonic()
        time.sleep(max(0.0, min(left, max(INTERVAL_SECONDS, took / BUSY_PART))))
        now = time.monotonic()
        tell(min(1.0, (now - started) / seconds))
    return sampler
