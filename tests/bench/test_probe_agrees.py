"""The latencies of `ext4audit probe` beside those of fio, ioping and pg_test_fsync.

All measure one filesystem in memory, in turns; the quickest round of each counts, because what
else the machine does only adds. The programs are Debian's packages fio, ioping and postgresql.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.program import run as ext4audit
from support.scratch import Scratch, run

pytestmark = [pytest.mark.bench, pytest.mark.kernel]
ROUNDS = 8
WITHIN = 0.25
POSTGRES = "/usr/lib/postgresql"


def program(name: str) -> str:
    """Return the path of a program, or skip the test."""
    installed = sorted(map(str, Path(POSTGRES).glob(f"*/bin/{name}")))
    found = shutil.which(name) or (installed[-1] if installed else None)
    return found or pytest.skip(f"{name} is not installed")


@pytest.fixture
def place(tmp_path: Path, private_mounts: None) -> Iterator[Path]:  # noqa: ARG001 - a fixture
    """Mount a filesystem whose device is a file in memory."""
    memory = tmp_path / "memory"
    memory.mkdir()
    run("mount", "-t", "tmpfs", "none", memory)
    one = Scratch(memory / "image", tmp_path / "mnt")
    eager = "lazy_itable_init=0,lazy_journal_init=0"
    yield one.make("-E", eager, size="2G").mount().mount_point
    one.unmount()
    run("umount", memory)


def ours(place: Path, figure: str) -> float:
    """Return a figure of the probe fsync."""
    done = ext4audit("probe", str(place), "--only", "fsync", "-f", "json")
    (result,) = json.loads(done.stdout)["results"]
    return float(result["measured"][figure])


def fio(place: Path) -> float:
    """Return the median of an append and its fsync in milliseconds."""
    command = "--name=x --rw=write --bs=4k --size=2m --fsync=1 --ioengine=psync --fallocate=none"
    words = [*command.split(), "--unlink=1", "--output-format=json", f"--directory={place}"]
    (job,) = json.loads(run(program("fio"), *words))["jobs"]
    median: float = job["sync"]["lat_ns"]["percentile"]["50.000000"]
    return (median + float(job["write"]["clat_ns"]["percentile"]["50.000000"])) / 1e6


def ioping(place: Path) -> float:
    """Return the median of an overwrite that is on the disk when it returns, in milliseconds."""
    words = "-c 256 -i 0 -s 8k -W -y -S 2M".split()
    printed = run(program("ioping"), *words, place)
    units = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    found = re.findall(r"time=([\d.]+) (ns|us|ms|s)(?! \(warmup\))", printed)
    return statistics.median(float(number) * units[unit] for number, unit in found)


def pg_test_fsync(place: Path) -> float:
    """Return the mean of an overwrite of one page and its fdatasync in milliseconds."""
    printed = run(program("pg_test_fsync"), "-s", "1", "-f", place / "pg")
    found = re.search(r"fdatasync\s+[\d.]+ ops/sec\s+(\d+) usecs/op", printed)
    assert found, printed
    return int(found[1]) / 1e3


@pytest.mark.parametrize(
    ("theirs", "figure"),
    [
        (fio, "append_fsync_p50_ms"),
        (ioping, "overwrite_fdatasync_p50_ms"),
        (pg_test_fsync, "overwrite_fdatasync_per_second"),
    ],
    ids=["fio", "ioping", "pg_test_fsync"],
)
def test_the_latencies_agree(place: Path, theirs: Callable[[Path], float], figure: str) -> None:
    """Side by side they differ by at most a quarter."""
    theirs(place)
    pairs = [(ours(place, figure), theirs(place)) for _ in range(ROUNDS)]
    is_rate = figure.endswith("_per_second")
    own = min(1e3 / mine if is_rate else mine for mine, _ in pairs)
    other = min(their for _, their in pairs)
    print(f"\n{figure}: {own:.4f} ms, {theirs.__name__} {other:.4f} ms, {own / other - 1:+.0%}")
    assert abs(own / other - 1) <= WITHIN
