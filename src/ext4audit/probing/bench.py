"""What each probe gets: the bytes and seconds it may use, and the statistics that several need."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.measurement import Figure, ProbeVerdict
from ext4audit.probing.workspace import Workspace

PIECE_BYTES = 1 << 20
MIB = 1 << 20


class BudgetExceeded(Exception):  # noqa: N818 - an outcome, not a failure
    """The bytes or the seconds of the run are used up; the message says which."""


class Limits(NamedTuple):
    """The most that a run may write and last. `rate` is in bytes a second."""

    size_bytes: int
    seconds: float
    rate: int
    inodes: int


class Budget:
    """Counts what is written, and makes the writer wait where the rate would be exceeded.

    The pace allows one second's bytes at once. `clock` and `sleep` are those of `time`.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limits = limits
        self.written_bytes = 0
        self._clock = clock
        self._sleep = sleep
        self._started = clock()
        self._due = self._started
        self._turn_ends = self._started + limits.seconds

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return self._clock() - self._started

    def give_turn(self, turns_left: int) -> None:
        """Give the next probe its part of the time: what is left, divided by the turns left."""
        left = max(0.0, self.limits.seconds - self.seconds)
        self._turn_ends = self._clock() + left / max(1, turns_left)

    def seconds_left(self) -> float:
        """Return the seconds that are left of this turn."""
        return self._turn_ends - self._clock()

    def check(self) -> None:
        """Raise BudgetExceeded where the time of the run is over."""
        self._check_at(self._clock())

    def _check_at(self, moment: float) -> None:
        if moment - self._started > self.limits.seconds:
            raise BudgetExceeded(f"the time limit was reached (--time {self.limits.seconds:g})")

    def spend(self, count: int) -> None:
        """Account for bytes that are about to be written; raises BudgetExceeded."""
        self.check()
        if self.written_bytes + count > self.limits.size_bytes:
            raise BudgetExceeded(
                f"the size limit was reached (--size {self.limits.size_bytes >> 20}M)"
            )
        self._wait_for_pace(count)
        self.written_bytes += count

    def _wait_for_pace(self, count: int) -> None:
        """Wait until the bytes are due; raises BudgetExceeded where the time is over by then."""
        now = self._clock()
        due = max(self._due, now - 1) + count / self.limits.rate
        self._check_at(due)
        self._due = due
        if due > now:
            self._sleep(due - now)

    def pause(self, seconds: float) -> float:
        """Wait, and return how long it took."""
        started = self._clock()
        self._sleep(seconds)
        return self._clock() - started


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def fill(budget: Budget, descriptor: int, size_bytes: int) -> None:
    """Append bytes that do not compress, in pieces; raises BudgetExceeded and OSError."""
    piece = os.urandom(PIECE_BYTES)
    for at in range(0, size_bytes, PIECE_BYTES):
        part = piece[: min(PIECE_BYTES, size_bytes - at)]
        budget.spend(len(part))
        write_all(descriptor, part)


class Bench(NamedTuple):
    """The workspace, the budget and the filesystem; `tell` takes the part that is done, 0 to 1."""

    workspace: Workspace
    budget: Budget
    fs: Filesystem
    host: Host
    tell: Callable[[float], None]


class Judged(NamedTuple):
    """A verdict and its reason."""

    verdict: ProbeVerdict
    why: str


healthy = partial(Judged, ProbeVerdict.HEALTHY)
affected = partial(Judged, ProbeVerdict.AFFECTED)
inconclusive = partial(Judged, ProbeVerdict.INCONCLUSIVE)


def in_force(fs: Filesystem, name: str) -> str:
    """Return the token of an option that is in force, empty where it is not known."""
    option = option_of(fs, name)
    return option.token if option else ""


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that at least `percent` of all do not exceed; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    at = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(at)]


def latency_figures(name: str, seconds: Sequence[float]) -> tuple[Figure, ...]:
    """Return the percentiles of some latencies in milliseconds."""
    marks = ("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)
    return tuple(
        Figure(f"{name}_{mark}_ms", milliseconds(percentile(seconds, percent)))
        for mark, percent in marks
    )


def milliseconds(seconds: float | None) -> float | None:
    """Return a duration in milliseconds, None of None."""
    return None if seconds is None else seconds * 1000
