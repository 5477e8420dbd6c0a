"""The private directory for probes, created, checked and removed through file descriptors."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from itertools import islice
from types import FrameType
from typing import NamedTuple, NoReturn

from ext4audit.facts import MIB

PREFIX = ".ext4audit-probe-"
LARGEST_SHARE = 0.05
"""The largest fraction of the free space and of the free inodes that a run may use."""
SMALLEST_BYTES = 16 * MIB
"""The least that a run must be allowed to write: with less, a rename is too fast to be timed."""
MOST_NAMES = 100_000
"""The most directory entries that are searched for leftovers of a killed run."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Refused(Exception):  # noqa: N818 - an outcome, not a failure
    """The directory cannot be probed; the message is the reason."""


class Space(NamedTuple):
    """What a run may use: bytes to write, and inodes."""

    size_bytes: int
    inodes: int


def writable_space(directory: int, wanted_bytes: int) -> Space:
    """Return what a run may use of the filesystem of an open directory; raises Refused.

    The result is `wanted_bytes`, but at most 5 % of the free space, and 5 % of the free inodes.
    """
    if wanted_bytes < SMALLEST_BYTES:
        least = SMALLEST_BYTES // MIB
        raise Refused(f"--size is too small: the probes write at least {least} MiB")
    free = os.fstatvfs(directory)
    free_bytes = free.f_bavail * free.f_frsize
    size_bytes = min(wanted_bytes, int(free_bytes * LARGEST_SHARE))
    if size_bytes < SMALLEST_BYTES:
        raise Refused(
            f"it has {free_bytes // MIB} MiB free: the probes write at least "
            f"{SMALLEST_BYTES // MIB} MiB, and at most 5 % of the free space"
        )
    return Space(size_bytes, int(free.f_favail * LARGEST_SHARE))


class Workspace:
    """A private open directory, in which files are newly created and links are not followed."""

    def __init__(self, descriptor: int, parent: int, name: str) -> None:
        self.descriptor = descriptor
        self._parent = parent
        self.name = name

    @contextlib.contextmanager
    def file(self, name: str, flags: int = 0) -> Iterator[int]:
        """Create a file that must not exist, yield its descriptor, and remove it."""
        descriptor = self.create(name, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
            self.discard(name)

    def create(self, name: str, flags: int = 0) -> int:
        """Create a file and return its descriptor; raises OSError, also if the file exists."""
        usual = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, usual | flags, 0o600, dir_fd=self.descriptor)

    def reopen(self, name: str, flags: int) -> int:
        """Open a file of the workspace again; raises OSError."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.descriptor)

    def discard(self, name: str) -> None:
        """Remove a file if it exists; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def replace(self, new: str, old: str) -> None:
        """Rename a file over another; raises OSError."""
        os.rename(new, old, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def empty(self) -> None:
        """Remove the content of the workspace; raises OSError."""
        for _, folders, files, folder in os.fwalk(".", topdown=False, dir_fd=self.descriptor):
            for name in files:
                os.unlink(name, dir_fd=folder)
            for name in folders:
                _remove_entry(name, folder)

    def remove(self) -> None:
        """Remove the workspace if its name still refers to it; raises OSError."""
        self.empty()
        named = os.stat(self.name, dir_fd=self._parent, follow_symlinks=False)
        if os.path.samestat(named, os.fstat(self.descriptor)):
            os.rmdir(self.name, dir_fd=self._parent)


def _remove_entry(name: str, folder: int) -> None:
    """Remove an empty directory, or a link to a directory, which os.fwalk lists as a directory."""
    try:
        os.rmdir(name, dir_fd=folder)
    except NotADirectoryError:
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def opened_directory(path: str) -> Iterator[int]:
    """Open the directory to probe; raises Refused if it cannot be opened."""
    try:
        descriptor = os.open(os.fsencode(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def workspace(parent: int) -> Iterator[Workspace]:
    """Create a directory that only this user can enter, and always remove it.

    SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt; during the removal they are blocked.
    Raises Refused if the directory cannot be created or removed.
    """
    name = f"{PREFIX}{secrets.token_hex(8)}"
    made: Workspace | None = None
    with _ended_by_signals():
        try:
            made = _make(parent, name)
            yield made
        finally:
            with _undisturbed():
                _remove(made, parent, name)


def _make(parent: int, name: str) -> Workspace:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        return Workspace(_open(parent, name), parent, name)
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None


def _open(parent: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(0, f"{name} belongs to another user")
    return descriptor


def _remove(made: Workspace | None, parent: int, name: str) -> None:
    """Remove the workspace, even if a signal arrived right after mkdir(2) and `made` is None.

    Raises Refused if that fails, for example because the filesystem has become read-only.
    """
    try:
        room = made or Workspace(_open(parent, name), parent, name)
    except OSError:  # it was not created, or belongs to another user
        return
    try:
        room.remove()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Refused(f"{name} cannot be removed: {error.strerror}") from None
    finally:
        os.close(room.descriptor)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let terminating signals raise KeyboardInterrupt; does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, _interrupt) for each in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Block the terminating signals until the end of the context."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leftovers(directory: int) -> tuple[str, ...]:
    """Return the names of workspaces in a directory, left by a killed run or still in use."""
    with os.scandir(directory) as entries:
        names = (entry.name for entry in islice(entries, MOST_NAMES))
        return tuple(sorted(name for name in names if name.startswith(PREFIX)))
