"""Tasks that wait in fsync or rename, sampled from /proc without tracing.

A task in uninterruptible sleep shows its system call and the arguments of it in
/proc/<pid>/task/<tid>/syscall, to root and to its own user. They may also read the path of a
rename from its memory. A wait that begins and ends between two samples is not seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

DeviceOf: TypeAlias = Callable[[str], int | None]
"""Returns the st_dev of a path, None if it is not known. It must limit how long it waits: the path
may lead to the very server that a task waits for."""
PROC = Path("/proc")
FSYNC, RENAME, RENAMEAT = "fsync", "rename", "renameat"
SYSCALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {74: FSYNC, 75: FSYNC, 82: RENAME, 264: RENAMEAT, 316: RENAMEAT},
    "aarch64": {82: FSYNC, 83: FSYNC, 38: RENAMEAT, 276: RENAMEAT},
}
"""fsync, fdatasync, rename, renameat and renameat2 by machine (arch/*/…/syscall*.tbl)."""
INTERVAL_SECONDS = 0.2
BUSY_PART = 0.1
"""The fraction of the time that sampling may take."""
MOST_TASKS = 20_000
LONGEST_PATH = 4096
_DESCRIPTOR = 0xFFFFFFFF
"""The bits of an argument that the kernel takes for a descriptor."""
_AT_FDCWD = -100 & _DESCRIPTOR


class Wait(NamedTuple):
    """One task in fsync or rename. `on_filesystem` is None if its filesystem is not known.

    `moment` are the task's arguments and counters, which do not change during one system call.
    """

    task: str
    call: str
    on_filesystem: bool | None
    moment: str = ""


class Waits(NamedTuple):
    """The waits in one system call: how many tasks waited, and the longest unbroken wait.

    `longest_seconds` is the longest time in which every sample found the same task in the call,
    with the same arguments, and without a read or write of this task since the sample before.
    """

    tasks: int = 0
    longest_seconds: float = 0.0


class Sampler:
    """Joins samples into waits."""

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

    def here(self, call: str) -> Waits:
        """Return the waits in one system call that are known to be on the filesystem."""
        found = {
            wait: seconds
            for wait, seconds in self._longest.items()
            if wait.call == call and wait.on_filesystem
        }
        return Waits(len({wait.task for wait in found}), max(found.values(), default=0.0))

    def anywhere(self, call: str) -> int:
        """Return how many tasks waited in one system call, on any filesystem."""
        return len({wait.task for wait in self._longest if wait.call == call})


def sample(device: int, machine: str, device_of: DeviceOf, proc: Path = PROC) -> frozenset[Wait]:
    """Return the tasks that are waiting now; `device` is the filesystem's st_dev."""
    calls = SYSCALLS.get(machine, {})
    found = (_wait(task, device, calls, device_of) for task in _sleeping(proc))
    return frozenset(wait for wait in found if wait is not None)


def _sleeping(proc: Path) -> Iterator[Path]:
    """Yield the tasks in uninterruptible sleep."""
    tasks = (
        task
        for process in proc.iterdir()
        if process.name.isdecimal()
        for task in _listed(process / "task")
    )
    for _, task in zip(range(MOST_TASKS), tasks, strict=False):
        if text(task / "stat").rpartition(")")[2].split()[:1] == ["D"]:
            yield task


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def text(path: Path) -> str:
    """Return the content of a file of the kernel, empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _wait(task: Path, device: int, calls: Mapping[int, str], device_of: DeviceOf) -> Wait | None:
    """Parse a task's syscall file: the call's number, and its arguments in hexadecimal."""
    called = text(task / "syscall")
    words = called.split()
    call = calls.get(int(words[0])) if len(words) > 1 and words[0].isdecimal() else None
    if call is None:
        return None
    arguments = [int(word, 16) for word in words[1:]]
    if call == FSYNC:
        found = _device_of_file(task, arguments[0] & _DESCRIPTOR)
    else:
        folder = _folder_of_rename(task, call, arguments)
        found = None if folder is None else device_of(folder)
    here = None if found is None else found == device
    return Wait(task.name, FSYNC if call == FSYNC else RENAME, here, called + _transfers(task))


def _transfers(task: Path) -> str:
    """Return the task's bytes and calls of reads and writes, empty if the kernel counts none.

    The fields after them are bytes of the disk, which also change during one call.
    """
    return text(task / "io").partition("read_bytes:")[0]


def _device_of_file(task: Path, descriptor: int) -> int | None:
    """Return the device of an open file by its mount, which no server is asked for."""
    mount = text(task / "fdinfo" / str(descriptor)).partition("mnt_id:")[2].split()[:1]
    for line in text(task / "mountinfo").splitlines():
        number, _, device, _ = line.split(" ", 3)
        if [number] == mount:
            major, minor = device.split(":")
            return os.makedev(int(major), int(minor))
    return None


def _folder_of_rename(task: Path, call: str, arguments: Sequence[int]) -> str | None:
    """Return the path of the directory that is renamed from, None if it cannot be read.

    Its device is that of the whole rename, which never crosses filesystems. The working directory
    alone proves nothing: that of most services is the root.
    """
    folder, address = (_AT_FDCWD, arguments[0]) if call == RENAME else arguments[:2]
    path = _string_at(task / "mem", address)
    if path is None:
        return None
    if path.startswith("/"):
        place = "root"
    elif folder & _DESCRIPTOR == _AT_FDCWD:
        place = "cwd"
    else:
        place = f"fd/{folder & _DESCRIPTOR}"
    return f"{task}/{place}/{os.path.dirname(path)}"  # noqa: PTH120 - "a/../b" stays as it is


def _string_at(memory: Path, address: int) -> str | None:
    """Return the text at an address of a task, None if it cannot be read."""
    try:
        with memory.open("rb", buffering=0) as file:
            found, end, _ = os.pread(file.fileno(), LONGEST_PATH, address).partition(b"\0")
    except (OSError, OverflowError):
        return None
    return os.fsdecode(found) if end else None


def watch(
    device: int, seconds: float, tell: Callable[[float], None], device_of: DeviceOf
) -> Sampler:
    """Sample for some seconds; `tell` is called with the fraction of the time that has passed."""
    sampler = Sampler()
    machine = os.uname().machine
    started = now = time.monotonic()
    while now - started < seconds:
        sampler.add(now, sample(device, machine, device_of))
        took = time.monotonic() - now
        left = started + seconds - time.monotonic()
        time.sleep(max(0.0, min(left, max(INTERVAL_SECONDS, took / BUSY_PART))))
        now = time.monotonic()
        tell(min(1.0, (now - started) / seconds))
    return sampler
