"""The latencies of `ext4audit probe` agree with those of fio, ioping and pg_test_fsync.

All measure one filesystem in turn. The programs are Debian's packages fio, ioping and postgresql.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.filesystems.scratch import Scratch, run
from support.program import run as ext4audit

pytestmark = [pytest.mark.bench, pytest.mark.kernel]
ROUNDS = 5
WITHIN = 0.25
POSTGRES = "/usr/lib/postgresql"


def program(name: str) -> str:
    """Return the path of a program, or skip the test."""
    installed = sorted(map(str, Path(POSTGRES).glob(f"*/bin/{name}")))
    found = shutil.which(name) or (installed[-1] if installed else None)
    return found or pytest.skip(f"{name} is not installed")


THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")
"""The limit of the root group of cgroup v1, which also applies to the journal's thread."""
WRITES_PER_SECOND = 1000
EAGER = ("-E", "lazy_itable_init=0,lazy_journal_init=0")


@pytest.fixture
def on_disk(tmp_path: Path, private_mounts: None) -> Iterator[Path]:  # noqa: ARG001 - a fixture
    """Mount a filesystem in a file on this machine's disk, which must otherwise be idle."""
    if os.environ.get("EXT4AUDIT_BENCH") != "full":
        pytest.skip("this machine's disk must be idle: EXT4AUDIT_BENCH=full")
    one = Scratch(tmp_path / "image", tmp_path / "mnt")
    yield one.make(*EAGER, size="2G").mount().mount_point
    one.unmount()


@pytest.fixture
def throttled(tmp_path: Path, private_mounts: None) -> Iterator[Path]:  # noqa: ARG001 - a fixture
    """Mount a filesystem in memory whose device is limited to a thousand writes per second."""
    if not THROTTLE.exists():
        pytest.skip("the throttle needs the blkio controller of cgroup v1")
    memory = tmp_path / "memory"
    memory.mkdir()
    run("mount", "-t", "tmpfs", "none", memory)
    one = Scratch(memory / "image", tmp_path / "mnt").make(*EAGER, size="2G").mount()
    number = Path(f"/sys/class/block/{Path(one.device).name}/dev").read_text().strip()
    THROTTLE.write_text(f"{number} {WRITES_PER_SECOND}")
    try:
        yield one.mount_point
    finally:
        THROTTLE.write_text(f"{number} 0")
        one.unmount()
        run("umount", memory)


def ours(place: Path, figure: str) -> float:
    """Return one figure of the fsync probe."""
    done = ext4audit("probe", str(place), "--only", "fsync", "-f", "json")
    (result,) = json.loads(done.stdout)["results"]
    return float(result["measured"][figure])


def fio(place: Path) -> float:
    """Return the mean latency of an append and its fsync in milliseconds."""
    command = "--name=x --rw=write --bs=4k --size=2m --fsync=1 --ioengine=psync --fallocate=none"
    words = [*command.split(), "--unlink=1", "--output-format=json", f"--directory={place}"]
    (job,) = json.loads(run(program("fio"), *words))["jobs"]
    return float(job["sync"]["lat_ns"]["mean"] + job["write"]["clat_ns"]["mean"]) / 1e6


def ioping(place: Path) -> float:
    """Return the median latency of a synchronous overwrite in milliseconds."""
    words = "-c 256 -i 0 -s 8k -W -y -S 2M".split()
    printed = run(program("ioping"), *words, place)
    units = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    found = re.findall(r"time=([\d.]+) (ns|us|ms|s)(?! \(warmup\))", printed)
    return statistics.median(float(number) * units[unit] for number, unit in found)


def pg_test_fsync(place: Path) -> float:
    """Return the mean latency of an overwrite of one page and its fdatasync in milliseconds.

    fdatasync is the second of 20 tests; all take 20 s, so a signal ends the program, cleanly.
    """
    command = [program("pg_test_fsync"), "-s", "1", "-f", str(place / "pg")]
    printed = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if found := re.search(r"fdatasync\s+[\d.]+ ops/sec\s+(\d+) usecs/op", line):
                process.terminate()
                return int(found[1]) / 1e3
    raise AssertionError(printed)


def compare(place: Path, figure: str, theirs: Callable[[Path], float]) -> None:
    """Measure in turn; the fastest rounds must agree, because other programs only add delays.

    Rates are converted to durations.
    """
    theirs(place)
    pairs = [(ours(place, figure), theirs(place)) for _ in range(ROUNDS)]
    is_rate = figure.endswith("_per_second")
    own = min(1e3 / mine if is_rate else mine for mine, _ in pairs)
    other = min(their for _, their in pairs)
    print(f"\n{figure}: {own:.4f} ms, {theirs.__name__} {other:.4f} ms, {own / other - 1:+.0%}")
    assert abs(own / other - 1) <= WITHIN


def test_appends_agree_with_fio(throttled: Path) -> None:
    """The mean latency of an append and its fsync agrees on a device of known speed."""
    compare(throttled, "append_fsync_per_second", fio)


def test_overwrites_agree_with_pg_test_fsync(throttled: Path) -> None:
    """The mean latency of an overwrite and its fdatasync agrees on a device of known speed."""
    compare(throttled, "overwrite_fdatasync_per_second", pg_test_fsync)


def test_overwrites_agree_with_ioping(on_disk: Path) -> None:
    """The median latency of an overwrite agrees on an idle disk."""
    compare(on_disk, "overwrite_fdatasync_p50_ms", ioping)
