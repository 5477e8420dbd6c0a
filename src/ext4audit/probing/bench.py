"""What each probe gets, and the statistics that several of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.measurement import Figure, ProbeVerdict
from ext4audit.probing.budget import Budget
from ext4audit.probing.workspace import Workspace

MIB = 1 << 20


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


def healthy(why: str) -> Judged:
    """Return the verdict HEALTHY."""
    return Judged(ProbeVerdict.HEALTHY, why)


def affected(why: str) -> Judged:
    """Return the verdict AFFECTED."""
    return Judged(ProbeVerdict.AFFECTED, why)


def inconclusive(why: str) -> Judged:
    """Return the verdict INCONCLUSIVE."""
    return Judged(ProbeVerdict.INCONCLUSIVE, why)


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
