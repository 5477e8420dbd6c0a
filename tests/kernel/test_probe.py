"""`ext4audit probe` on real filesystems: good and bad options, refusals, and no leftovers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from support.filesystems.scratch import Scratch
from support.filesystems.scratch import run as scratch_run
from support.program import environment, run, run_as_nobody
from support.timing import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("steady_limits")]
SIZE = "1G"
"""A twentieth of it holds a file of 19 MiB."""
TRIES = 5
"""Another program's sync(2) may write a file before it is renamed, and delay a rename."""


def probe(place: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and report of a run, and assert that no files are left."""
    before = sorted(place.iterdir())
    done = run("probe", str(place), "-f", "json", *arguments)
    assert done.stdout, done.stderr
    assert sorted(place.iterdir()) == before
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("options", "only", "code", "verdict", "figure", "low", "high"),
    [
        ("barrier=1", "fsync", 0, "healthy", "flushes_per_fsync", 0.9, 4),
        ("barrier=0", "fsync", 1, "affected", "flushes_per_fsync", 0, 0.05),
        ("noauto_da_alloc", "rename", 0, "healthy", "rename_idle_seconds", 0, 0.5),
        ("nodelalloc", "rename", 0, "healthy", "rename_idle_seconds", 0, 0.5),
        ("delalloc", "extents", 0, "healthy", "extents_per_mib_before_writeback", 0, 10),
    ],
)
def test_healthy_and_sick_options(
    scratch: Callable[..., Scratch],
    *,
    options: str,
    only: str,
    code: int,
    verdict: str,
    figure: str,
    low: float,
    high: float,
) -> None:
    """Each option shows in the figure of its probe."""
    one = scratch().make(size=SIZE).mount(options)
    name = figure + f"_{Path(one.device).name}" if only == "fsync" else figure
    for _ in range(TRIES):
        exit_code, report = probe(one.mount_point, "--only", only)
        (result,) = report["results"]
        if result["verdict"] != "inconclusive" and result["measured"][name] <= high:
            break
    assert (exit_code, result["verdict"]) == (code, verdict), result
    assert low <= result["measured"][name] <= high, result["measured"]


@pytest.mark.parametrize(("option", "verdict"), [("barrier", "healthy"), ("nobarrier", "affected")])
def test_an_external_journal_is_judged_too(
    tmp_path: Path, scratch: Callable[..., Scratch], option: str, verdict: str
) -> None:
    """The commits are on the device of the journal, and the reason names it."""
    image = tmp_path / "journal"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    journal = scratch_run("losetup", "--find", "--show", str(image)).strip()
    try:
        scratch_run("mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "4096", journal)
        one = scratch().make("-b", "4096", "-J", f"device={journal}", size=SIZE).mount(option)
        _, report = probe(one.mount_point, "--only", "fsync")
        one.unmount()
    finally:
        scratch_run("losetup", "--detach", journal)
    (result,) = report["results"]
    assert result["verdict"] == verdict, result
    assert Path(journal).name in result["why"]


def test_the_limits_are_kept(scratch: Callable[..., Scratch]) -> None:
    """At most --size is written, and at most 5 % of the free space."""
    one = scratch().make(size=SIZE).mount()
    free = os.statvfs(one.mount_point)
    _, report = probe(one.mount_point, "--size", "256M", "--time", "20")
    assert 0 < report["written_bytes"] <= free.f_bavail * free.f_frsize * 0.05
    assert report["seconds"] < 25
    assert [each["probe"] for each in report["skipped"]] == ["members"]
    assert "no stripe" in report["skipped"][0]["why"]
    _, small = probe(one.mount_point, "--size", "16M", "--only", "rename")
    assert small["written_bytes"] <= 16 << 20


@pytest.mark.parametrize(
    ("options", "size", "arguments", "reason"),
    [
        ("ro", SIZE, (), "read-only"),
        ("", "64M", (), "MiB free"),
        ("", SIZE, ("--size", "1M"), "at least 16 MiB"),
        ("", SIZE, ("--only", "fsink"), "did you mean fsync?"),
    ],
)
def test_refusals(
    scratch: Callable[..., Scratch],
    options: str,
    size: str,
    arguments: tuple[str, ...],
    reason: str,
) -> None:
    """Unsuitable targets are refused in one line, before anything is written."""
    one = scratch().make(size=size).mount(options)
    done = run("probe", str(one.mount_point), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_another_filesystem_is_named(tmp_path: Path) -> None:
    """A directory on tmpfs or in /proc is not on ext4."""
    done = run("probe", "/proc", cwd=tmp_path)
    assert done.returncode == 2
    assert "proc" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_removes_everything(
    scratch: Callable[..., Scratch], number: signal.Signals
) -> None:
    """After a signal at any time the directory is as before, and the exit code is 130."""
    place = scratch().make(size=SIZE).mount().mount_point
    before = sorted(place.iterdir())
    command = [sys.executable, "-m", "ext4audit", "probe", str(place), "--rate", "2M"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert wait_until(lambda: sorted(place.iterdir()) != before)
        time.sleep(0.3)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, errors
    assert sorted(place.iterdir()) == before


def test_a_scan_cites_the_measurement_while_it_holds(
    scratch: Callable[..., Scratch], tmp_path: Path
) -> None:
    """The finding cites it as evidence; after a remount with barriers it is no longer used."""
    one = scratch().make(size=SIZE).mount("barrier=0")
    path = tmp_path / "probe.json"
    assert run("probe", str(one.mount_point), "-f", "json", "-o", str(path)).returncode == 1

    def scan() -> dict[str, Any]:
        words = ("scan", str(one.mount_point), "--select", "DUR001", "--probe", str(path))
        report: dict[str, Any] = json.loads(run(*words, "-f", "json").stdout)
        return report

    before = scan()
    (finding,) = before["verdicts"][0]["findings"]
    assert finding["confidence"] == "confirmed"
    assert any("flushed nothing" in json.dumps(each) for each in finding["evidence"])
    assert not before["notices"]
    scratch_run("mount", "-o", "remount,barrier=1", one.mount_point)
    after = scan()
    assert after["verdicts"][0]["outcome"] == "pass"
    assert any("nobarrier was in force" in notice for notice in after["notices"])


def test_an_observation_writes_nothing(scratch: Callable[..., Scratch]) -> None:
    """This also works on a read-only filesystem; its result cannot prove health."""
    one = scratch().make(size="64M").mount("ro")
    code, report = probe(one.mount_point, "--observe", "1")
    assert (code, report["mode"], report["written_bytes"]) == (3, "observe", 0)
    assert [each["probe"] for each in report["results"]] == ["fsync", "rename"]
    assert [each["probe"] for each in report["skipped"]] == ["extents", "members"]


def test_a_rename_counts_for_the_filesystem_of_its_path(scratch: Callable[..., Scratch]) -> None:
    """The working directory of the task that waits is on the other filesystem."""
    one, other = (scratch(name).make(size="64M").mount() for name in ("one", "other"))
    (other.mount_point / "new").touch()
    script = "import os, sys; os.chdir(sys.argv[1]); os.rename(*sys.argv[2:])"
    paths = [f"{other.mount_point}/{name}" for name in ("new", "old")]
    scratch_run("fsfreeze", "-f", str(other.mount_point))
    task = subprocess.Popen([sys.executable, "-c", script, str(one.mount_point), *paths])
    try:
        assert wait_until(lambda: ") D " in Path(f"/proc/{task.pid}/stat").read_text())
        seen = [probe(each.mount_point, "--observe", "3") for each in (one, other)]
    finally:
        scratch_run("fsfreeze", "-u", str(other.mount_point))
        task.wait()
    renames = [report["results"][1] for _, report in seen]
    assert [each["verdict"] for each in renames] == ["inconclusive", "affected"], renames
    assert all(each["measured"]["tasks_seen_waiting_in_rename_anywhere"] for each in renames)


def test_only_members_of_a_single_disk_measures_nothing(scratch: Callable[..., Scratch]) -> None:
    """Without an array there is no result, which does not count as healthy."""
    one = scratch().make(size=SIZE).mount()
    code, report = probe(one.mount_point, "--only", "members")
    assert (code, report["results"]) == (3, [])


def test_a_write_that_fails_is_inconclusive_and_no_crash(
    scratch: Callable[..., Scratch],
) -> None:
    """A full disk, a quota or a limit can stop a write: the kernel's reason is shown."""
    one = scratch().make(size=SIZE).mount()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
    ignore = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    start = f"{limit}{ignore} from ext4audit.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "probe", one.mount_point, "--only", "extents", "-f", "json"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 3, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["verdict"], result["why"]) == ("inconclusive", "File too large")
    assert [path.name for path in one.mount_point.iterdir()] == ["lost+found"]


@pytest.mark.usefixtures("private_mounts")
def test_a_user_probes_what_the_user_may_write() -> None:
    """Without root the members probe cannot read the superblock it needs; fsync needs none."""
    with TemporaryDirectory() as folder:  # everybody may enter it, unlike tmp_path
        Path(folder).chmod(0o755)
        one = Scratch(Path(folder, "image"), Path(folder, "mnt")).make(size=SIZE).mount()
        try:
            one.mount_point.chmod(0o777)
            done = run_as_nobody("probe", str(one.mount_point), "--only", "fsync", "-f", "json")
            one.mount_point.chmod(0o755)
            refused = run_as_nobody("probe", str(one.mount_point))
            left = [path.name for path in one.mount_point.iterdir()]
        finally:
            one.unmount()
    (result,) = json.loads(done.stdout)["results"]
    assert result["verdict"] == "healthy", (result, done.stderr)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Permission denied" in refused.stderr
    assert left == ["lost+found"]
