"""Time in tests: how long they wait, and CPU time as a multiple of a fixed piece of work.

Wall time includes the work of other programs: CI emulates a kernel in parallel with the tests. It
only shows whether a test waited for something that hangs, which takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

PATIENCE_SECONDS = 300.0
"""How long a test waits for something that usually takes a second, before it fails as hanging."""
HANG_SECONDS = 900
"""How long a hanging process in a test sleeps, unless it is killed."""


def hang(*_: object, **__: object) -> None:
    """Block like a dead server."""
    time.sleep(HANG_SECONDS)


def wait_until(condition: Callable[[], bool], pause_seconds: float = 0.01) -> bool:
    """Wait until a condition holds; return False if it does not within PATIENCE_SECONDS."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(pause_seconds)
    return condition()


@contextmanager
def assert_no_waiting() -> Iterator[None]:
    """Fail if the block has waited for something that hangs."""
    began = time.monotonic()
    yield
    taken = time.monotonic() - began
    assert taken < HANG_SECONDS / 2, f"it took {taken:.1f} s"


MULTIPLICATIONS = 100_000
"""The number of multiplications of the piece of work: 2 ms on a machine of 2024."""


def relative_time(call: Callable[[], object], rounds: int = 20) -> float:
    """Return the CPU time of a call, as a multiple of the time of 100,000 multiplications.

    Both are measured in turn, and the fastest round of each counts.
    """
    work, calls = [], []
    for _ in range(rounds):
        work.append(_cpu_seconds(_work))
        calls.append(_cpu_seconds(call))
    return min(calls) / min(work)


def _work() -> None:
    for number in range(MULTIPLICATIONS):
        number * number


def _cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def command_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command, and return the CPU seconds of it and its child processes."""
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
