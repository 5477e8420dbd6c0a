"""Processor time, as multiples of a fixed piece of work or of another command.

Wall time counts what else a machine does meanwhile: CI emulates a kernel beside the benches.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

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


def command_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command, and return the processor time in seconds of it and what it started."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
