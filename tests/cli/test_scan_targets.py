"""`ext4audit scan TARGET…`: the superblocks that hold the targets, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from program import root_fstype, run

FINISHED = {0, 1, 3}


def first_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the complaint of a usage error."""
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr.splitlines()[0]


@pytest.fixture
def root_is_ext4() -> None:
    """Skip where / is on another filesystem."""
    if root_fstype() not in {"ext2", "ext3", "ext4"}:
        pytest.skip(f"/ is {root_fstype()}, not ext4")


def subjects(*targets: str) -> list[Any]:
    """Return the filesystems of a scan of the targets."""
    done = run("scan", "-f", "json", *targets)
    assert done.returncode in FINISHED, done.stderr
    found: list[Any] = json.loads(done.stdout)["filesystems"]
    return found


@pytest.mark.parametrize(
    ("target", "fstype"), [("/proc", "proc"), ("/proc/self/status", "proc"), ("/sys", "sysfs")]
)
def test_a_target_that_is_not_on_ext4_is_refused(target: str, fstype: str) -> None:
    """The complaint names the target, what it is on, and where that is mounted."""
    where = {"proc": "/proc", "sysfs": "/sys"}[fstype]
    expected = f"ext4audit: {target}: not ext4: {fstype} (mounted on {where})"
    assert first_line(run("scan", target)) == expected


def test_all_targets_that_are_not_on_ext4_are_named() -> None:
    """With nothing left to audit, each target is told of."""
    said = first_line(run("scan", "/proc", "/sys"))
    assert "/proc: not ext4: proc" in said
    assert "/sys: not ext4: sysfs" in said


@pytest.mark.parametrize("name", ["missing", "missing\x1b[31m\nline", "-rf", "a/b/c", "x" * 300])
def test_a_target_that_does_not_exist_is_refused(tmp_path: Path, name: str) -> None:
    """One line, with everything that a terminal would obey spelled out."""
    done = run("scan", "--", str(tmp_path / name))
    said = first_line(done)
    assert said.startswith(f"ext4audit: {tmp_path}/")
    assert said.endswith((": does not exist", ": cannot be reached: File name too long"))
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_an_empty_target_is_refused() -> None:
    """An unset variable in a script must not audit something else."""
    assert first_line(run("scan", "")) == "ext4audit: : does not exist"


def test_a_missing_target_stops_the_audit_of_the_others() -> None:
    """A misspelt path beside a right one is a mistake, not half an audit."""
    assert first_line(run("scan", "/", "/no/such/place")).endswith(": does not exist")


@pytest.mark.usefixtures("root_is_ext4")
def test_the_root_directory_is_one_filesystem() -> None:
    """A mount point stands for its superblock."""
    (found,) = subjects("/")
    assert "/" in found["mount_points"]


@pytest.mark.usefixtures("root_is_ext4")
def test_a_link_is_followed(tmp_path: Path) -> None:
    """A symbolic link stands for what it leads to."""
    link = tmp_path / "link"
    link.symlink_to("/")
    assert [fs["id"] for fs in subjects(str(link))] == [fs["id"] for fs in subjects("/")]


@pytest.mark.usefixtures("root_is_ext4")
def test_targets_on_one_superblock_are_one_subject() -> None:
    """A directory, a file and a mount point of one filesystem are judged once."""
    names = [str(path) for path in (Path("/"), Path("/etc"), Path("/etc/passwd")) if path.exists()]
    devices = {Path(name).stat().st_dev for name in names}
    assert len(subjects(*names)) == len(devices)


@pytest.mark.usefixtures("root_is_ext4")
def test_what_is_not_on_ext4_is_told_beside_what_is() -> None:
    """The audit of the rest is made, and standard error names what was left out."""
    done = run("scan", "-q", "/", "/proc")
    assert done.returncode in FINISHED
    assert done.stderr == "ext4audit: /proc: not ext4: proc (mounted on /proc)\n"
    assert ": 1 filesystem; " in done.stdout
