"""The environment of a probe: its budget of bytes and seconds, and shared statistics functions."""

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


class BudgetExceeded(Exception):  # noqa: N818 - an outcome, not a failure
    """The budget of bytes or seconds of the run is used up; the message names the limit."""


class Limits(NamedTuple):
    """The limits of a run. `rate` is in bytes per second."""

    size_bytes: int
    seconds: float
    rate: int
    inodes: int


class Budget:
    """Counts the bytes written, and makes the writer wait if it would exceed the rate.

    Bursts of one second's bytes are allowed. `clock` and `sleep` are those of `time`.
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
        """The seconds since the start of the run."""
        return self._clock() - self._started

    def give_turn(self, turns_left: int) -> None:
        """Give the next probe its share of the time: the time left divided by the turns left."""
        left = max(0.0, self.limits.seconds - self.seconds)
        self._turn_ends = self._clock() + left / max(1, turns_left)

    def seconds_left(self) -> float:
        """Return the seconds left in this turn."""
        return self._turn_ends - self._clock()

    def check(self) -> None:
        """Raise BudgetExceeded if the time of the run is over."""
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
        """Wait until the rate allows the bytes; raises BudgetExceeded if that is too late."""
        now = self._clock()
        due = max(self._due, now - 1) + count / self.limits.rate
        self._check_at(due)
        self._due = due
        if due > now:
            self._sleep(due - now)

    def pause(self, seconds: float) -> float:
        """Sleep, and return the seconds that it really took."""
        started = self._clock()
        self._sleep(seconds)
        return self._clock() - started


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def fill(budget: Budget, descriptor: int, size_bytes: int) -> None:
    """Append incompressible bytes in pieces; raises BudgetExceeded and OSError."""
    piece = os.urandom(PIECE_BYTES)
    for at in range(0, size_bytes, PIECE_BYTES):
        part = piece[: min(PIECE_BYTES, size_bytes - at)]
        budget.spend(len(part))
        write_all(descriptor, part)


class Bench(NamedTuple):
    """What a probe gets to work with; `tell` reports the fraction that is done, from 0 to 1."""

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
    """Return the token in force of an option, empty if it is not known."""
    option = option_of(fs, name)
    return option.token if option else ""


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that at least `percent` of all do not exceed; None if empty."""
    if not values:
        return None
    ordered = sorted(values)
    at = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(at)]


def latency_figures(name: str, seconds: Sequence[float]) -> tuple[Figure, ...]:
    """Return the percentiles of latencies as figures in milliseconds."""
    marks = ("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)
    return tuple(
        Figure(f"{name}_{mark}_ms", milliseconds(percentile(seconds, percent)))
        for mark, percent in marks
    )


def milliseconds(seconds: float | None) -> float | None:
    """Convert seconds to milliseconds; None stays None."""
    return None if seconds is None else seconds * 1000
