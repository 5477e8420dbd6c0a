"""The limits of dirty memory, which a machine has once: the tests that set them take turns."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.scratch import run

NAMES = ("dirty_background_ratio", "dirty_ratio", "dirty_background_bytes", "dirty_bytes")
LOCK = Path(tempfile.gettempdir(), "ext4audit-tests-dirty-limits.lock")


def read_limits() -> dict[str, int]:
    """Read vm.dirty_* as they are; of a size and its ratio, one is 0."""
    return {name: int(Path("/proc/sys/vm", name).read_text()) for name in NAMES}


def set_limits(*settings: str) -> None:
    """Set limits, such as `vm.dirty_ratio=20`, in this order; for the one whose turn it is."""
    run("sysctl", "-qw", *settings)


@contextmanager
def own_limits(*settings: str) -> Iterator[None]:
    """Set limits that no other test changes meanwhile; bring back what they were."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read_limits()
        set_limits(*settings)
        try:
            yield
        finally:
            set_limits(*(f"vm.{name}={value}" for name, value in before.items() if value))
        assert read_limits() == before
