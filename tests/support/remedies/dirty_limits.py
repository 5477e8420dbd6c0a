"""The limits of dirty memory, which a machine has once, and how tests beside each other share them.

Who sets them has them alone. Reports quote them: who compares two looks at this machine keeps them
as they are meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from support.filesystems.scratch import run

NAMES = ("dirty_background_ratio", "dirty_ratio", "dirty_background_bytes", "dirty_bytes")
LOCK = Path(tempfile.gettempdir(), "ext4audit-tests-dirty-limits.lock")
_locks: set[int] = set()
"""Descriptors of this process's lock: to ask for another would be to wait for itself."""


def read_limits() -> dict[str, int]:
    """Read vm.dirty_* as they are; of a size and its ratio, one is 0."""
    return {name: int(Path("/proc/sys/vm", name).read_text()) for name in NAMES}


def set_limits(*settings: str) -> None:
    """Set limits, such as `vm.dirty_ratio=20`, in this order; for the one whose turn it is."""
    run("sysctl", "-qw", *settings)


@contextmanager
def own_limits(*settings: str) -> Iterator[None]:
    """Set limits that no other test changes, or looks at twice, meanwhile; bring them back."""
    with _locked(fcntl.LOCK_EX):
        before = read_limits()
        set_limits(*settings)
        try:
            yield
        finally:
            set_limits(*(f"vm.{name}={value}" for name, value in before.items() if value))
        assert read_limits() == before


def steady_limits() -> AbstractContextManager[None]:
    """Keep the limits as they are; others may do so at the same time."""
    return _locked(fcntl.LOCK_SH)


@contextmanager
def _locked(kind: int) -> Iterator[None]:
    assert not _locks, "this process has the limits already"
    lock = _opened()
    _locks.add(lock)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        _locks.discard(lock)
        os.close(lock)


def _opened() -> int:
    """Open the file for reading, which is enough for a lock: it may be another user's."""
    with suppress(FileNotFoundError):
        return os.open(LOCK, os.O_RDONLY)
    return os.open(LOCK, os.O_RDONLY | os.O_CREAT, 0o644)
