"""Times as multiples of a fixed piece of work: machines differ, and are slow for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

TURNS = 100_000
"""Multiplications of the piece of work: 2 ms on a machine of 2024."""


def relative_time(call: Callable[[], object], rounds: int = 20) -> float:
    """Return the CPU time of a call as a multiple of that of 100,000 multiplications in a loop.

    Both are measured in turn, and the quickest round of each counts.
    """
    work, calls = [], []
    for _ in range(rounds):
        work.append(_cpu_seconds(_work))
        calls.append(_cpu_seconds(call))
    return min(calls) / min(work)


def _work() -> None:
    for number in range(TURNS):
        number * number


def _cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started
