"""What one input may cost a fleet: seconds and memory, whatever it holds."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 60.0
LARGEST_BYTES = 256 << 20
_THREAD_BYTES = 80 << 20
"""Addresses that a thread reserves and hardly uses: a stack, and an arena of malloc(3)."""
_STATM = "/proc/self/statm"


class TooLong(BaseException):
    """The input took more than its time.

    No Exception: the boundaries that turn those into unknown evidence would go on with the host.
    """


@contextmanager
def limited(seconds: float, count_bytes: int) -> Iterator[None]:
    """Limit what the block takes; raises TooLong, and MemoryError. For the main thread only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    before = signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (min([_in_use() + count_bytes, *most]), hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def _stop(_signal: int, _frame: object) -> None:
    raise TooLong


def _in_use() -> int:
    """Return the addresses in use, and room for a thread (proc_pid_statm(5))."""
    with open(_STATM, "rb") as file:  # noqa: PTH123 - for each of ten thousand hosts
        return int(file.read().split()[0]) * resource.getpagesize() + _THREAD_BYTES
