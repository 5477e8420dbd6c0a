"""The dirty memory limits, which are global to a machine, and a lock for parallel tests.

A test that sets them holds them exclusively. Reports quote them, so a test that compares two
audits of this machine keeps them unchanged meanwhile.
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
"""The lock's descriptor if this process holds it; waiting for a second one would deadlock."""


def read_limits() -> dict[str, int]:
    """Return vm.dirty_*; of each pair of a size and a ratio, one is 0."""
    return {name: int(Path("/proc/sys/vm", name).read_text()) for name in NAMES}


def set_limits(*settings: str) -> None:
    """Set limits, such as `vm.dirty_ratio=20`, in this order; the caller must hold the lock."""
    run("sysctl", "-qw", *settings)


@contextmanager
def own_limits(*settings: str) -> Iterator[None]:
    """Set limits while no other test changes or compares them, and restore them at the end."""
    with _locked(fcntl.LOCK_EX):
        before = read_limits()
        set_limits(*settings)
        try:
            yield
        finally:
            set_limits(*(f"vm.{name}={value}" for name, value in before.items() if value))
        assert read_limits() == before


def steady_limits() -> AbstractContextManager[None]:
    """Keep the limits unchanged; several tests may do so at the same time."""
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
    """Open the lock file for reading, which suffices: another user may own the file."""
    with suppress(FileNotFoundError):
        return os.open(LOCK, os.O_RDONLY)
    return os.open(LOCK, os.O_RDONLY | os.O_CREAT, 0o644)
