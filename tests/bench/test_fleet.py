"""Time and memory of the audit of a fleet.

Run with `uv run pytest -m bench -s tests/bench/test_fleet.py`: it prints what it measured. The
bounds are ratios within one run, because machines differ and are noisy. `EXT4AUDIT_BENCH=full`
measures ten thousand hosts, as `.ci/run --full` does, instead of one thousand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from support.hosts.fleets import write_fleet

pytestmark = pytest.mark.bench

SIZES = (100, 10_000 if os.environ.get("EXT4AUDIT_BENCH") == "full" else 1_000)

MEASURE = """
import os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
started = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - started
cpu = usage.ru_utime + usage.ru_stime
print(os.waitstatus_to_exitcode(status), seconds, cpu, usage.ru_maxrss)
"""
"""Runs in a small process of its own: a child's peak includes its parent's memory at the exec."""


class Run(NamedTuple):
    """The cost of one scan of a fleet; `peak_kib` is the peak of its largest process."""

    seconds: float
    cpu_seconds: float
    peak_kib: int
    lines: int


def scan(fleet: Path, output: Path) -> Run:
    """Scan a fleet as a user would, and measure the process and its children."""
    program = str(Path(sys.executable).with_name("ext4audit"))
    command = [program, "scan", "--from", str(fleet), "-f", "ndjson", "-o", str(output)]
    measured = subprocess.check_output([sys.executable, "-I", "-c", MEASURE, *command], text=True)
    code, seconds, cpu_seconds, peak_kib = measured.split()
    assert code == "1"
    lines = output.read_bytes().count(b"\n")
    return Run(float(seconds), float(cpu_seconds), int(peak_kib), lines)


def test_time_grows_linearly_and_memory_stays_flat(tmp_path: Path) -> None:
    """N times the hosts take less than 1.5 N times the CPU time and 4/3 of the memory."""
    runs: dict[int, Run] = {}
    for size in SIZES:
        write_fleet(tmp_path / str(size), size)
        run = runs[size] = scan(tmp_path / str(size), tmp_path / "out.ndjson")
        print(
            f"\n{size:6} snapshots: {run.seconds:6.1f} s, {size / run.seconds:5.0f} a second, "
            f"{run.cpu_seconds / size * 1000:.1f} ms of CPU each, "
            f"largest process {run.peak_kib / 1024:.0f} MiB"
        )
        assert run.lines == size
    small, large = runs[SIZES[0]], runs[SIZES[-1]]
    assert large.cpu_seconds < 1.5 * SIZES[-1] / SIZES[0] * small.cpu_seconds
    assert large.peak_kib < small.peak_kib * 4 / 3
