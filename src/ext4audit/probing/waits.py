"""Tasks that wait in fsync or rename, sampled from /proc without tracing.

A task in uninterruptible sleep shows its system call in /proc/<pid>/task/<tid>/syscall, to root
and to its own user. A wait that begins and ends between two samples is not seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
SYSCALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {74: "fsync", 75: "fsync", 82: "rename", 264: "rename", 316: "rename"},
    "aarch64": {82: "fsync", 83: "fsync", 38: "rename", 276: "rename"},
}
"""fsync, fdatasync, rename, renameat and renameat2 by machine (arch/*/…/syscall*.tbl)."""
INTERVAL_SECONDS = 0.2
BUSY_PART = 0.1
"""The part of the time that sampling may take."""
MOST_TASKS = 20_000


class Wait(NamedTuple):
    """One task in one system call. `on_filesystem` is None where its filesystem is not known."""

    task: str
    call: str
    on_filesystem: bool | None


class Waits(NamedTuple):
    """What was seen of one system call: how many tasks waited in it, and how long without a break.

    `longest_seconds` is the time in which every sample found the same task in the call. It is one
    long wait, or many short ones that follow each other: the kernel does not show which.
    """

    tasks: int = 0
    longest_seconds: float = 0.0


class Sampler:
    """Joins samples to waits, those of the filesystem and those that cannot be assigned."""

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
        """Return the waits of one system call, on the filesystem or of unknown place (None)."""
        found = [
            seconds
            for wait, seconds in self._longest.items()
            if wait.call == call and wait.on_filesystem is on_filesystem
        ]
        return Waits(len(found), max(found, default=0.0))


def sample(
    device: int, machine: str, proc: Path = PROC, stat: Callable[[str], os.stat_result] = os.stat
) -> frozenset[Wait]:
    """Return the tasks that wait now; `device` is the filesystem's st_dev.

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


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _wait(
    task: Path, device: int, calls: Mapping[int, str], stat: Callable[[str], os.stat_result]
) -> Wait | None:
    """Return what a task waits in: the call's number, and its first argument in hexadecimal."""
    words = _text(task / "syscall").split()
    call = calls.get(int(words[0])) if len(words) > 1 and words[0].isdecimal() else None
    if call is None:
        return None
    place = f"fd/{int(words[1], 16)}" if call == "fsync" else "cwd"
    found = _device(task / place, stat)
    # A path can lead anywhere from the working directory, so that another device proves nothing.
    same = None if found is None or (call == "rename" and found != device) else found == device
    return Wait(task.name, call, same)


def _device(path: Path, stat: Callable[[str], os.stat_result]) -> int | None:
    try:
        return stat(str(path)).st_dev
    except OSError:
        return None


def watch(device: int, seconds: float, tell: Callable[[float], None]) -> Sampler:
    """Sample until the time is over; `tell` takes the part of it that has passed."""
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
