"""Incomplete hosts: the scan finishes, reports what it could not see, and judges the rest."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import Known, Unknown, Why, derive
from ext4audit.facts.mount import DeviceNumber
from ext4audit.parsers.dumpe2fs import parse_superblock
from ext4audit.report import Outcome, Report, ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources import RunCommand
from ext4audit.sources.live import LiveSource
from support.filesystems.scratch import TAKEN_AT, Scratch, run
from support.program import AS_NOBODY
from support.timing import HANG_SECONDS, PATIENCE_SECONDS

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]
PROGRAM = (sys.executable, "-m", "ext4audit")
NOBODY = (sys.executable, "-c", AS_NOBODY)


def scan_json(
    *targets: str | Path, program: Sequence[str] = PROGRAM, code: int | None = None
) -> dict[str, Any]:
    """Run `scan -f json` as a process: unchanged, or as nobody, or in another root."""
    done = subprocess.run(
        [*program, "scan", "-f", "json", *map(str, targets)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode in {0, 1, 3} if code is None else done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    """Return the outcome of each rule of a report on one filesystem."""
    return {verdict["rule"]: verdict["outcome"] for verdict in document["verdicts"]}


def hints(document: dict[str, Any]) -> str:
    """Return all hints in a report."""
    unknowns = [u for verdict in document["verdicts"] for u in verdict["unknowns"]]
    return " ".join(str(unknown["hint"]) for unknown in [*unknowns, *document["gaps"]])


@contextmanager
def overmounted(*places: str) -> Iterator[None]:
    """Mount empty filesystems over directories, in this namespace only."""
    for place in places:
        run("mount", "-t", "tmpfs", "none", place)
    try:
        yield
    finally:
        for place in places:
            run("umount", place)


def report_with(search_path: Path, timeout_seconds: float = 20.0) -> Report:
    """Audit this host with the tools in one directory only."""
    source = LiveSource(timeout_seconds, search_path=(str(search_path),))
    return audit(ReportSource("live", "test"), assemble_host(source, TAKEN_AT), all_rules())


def tool(directory: Path, name: str, script: str) -> None:
    """Write an executable script into a directory."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def test_hidden_options_are_found_without_root(scratch: Make) -> None:
    """As nobody, the options file and the mount table reveal what the superblock hides."""
    one = scratch().make().tune("-o", "nobarrier").mount()
    one.mount_point.chmod(0o755)
    document = scan_json(one.device, program=NOBODY)
    (fs,) = document["filesystems"]
    assert fs["options"]["hidden"] == ["nobarrier"]
    assert outcomes(document)["DUR001"] == "fail"


def test_scan_without_tools_uses_proc_and_sys(scratch: Make, tmp_path: Path) -> None:
    """Without dumpe2fs, lsblk and dmsetup, rules that need only /proc and /sys are judged."""
    one = scratch().make().mount("nobarrier")
    report = report_with(tmp_path / "no-tools")
    (fs,) = [fs for fs in report.host.filesystems if fs.device == one.device]
    assert isinstance(fs.stack, Known)
    (verdict,) = [
        v for v in report.verdicts if v.rule.code == "DUR001" and v.filesystem_id == fs.id
    ]
    assert verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("script", "seconds", "why"),
    [
        (f"sleep {HANG_SECONDS} & sleep {HANG_SECONDS}", 0.5, Why.TIMED_OUT),
        ("printf '\\377\\376 not a superblock\\n'", PATIENCE_SECONDS, Why.UNPARSABLE),
        (
            "echo 'dumpe2fs: Operation not permitted while trying to open' >&2; exit 1",
            PATIENCE_SECONDS,
            Why.DENIED,
        ),
        ("exit 3", PATIENCE_SECONDS, Why.FAILED),
    ],
)
def test_failing_dumpe2fs_is_one_gap(
    scratch: Make, tmp_path: Path, script: str, seconds: float, why: Why
) -> None:
    """A hung, babbling or failing dumpe2fs is one gap, and the superblock's bytes replace it.

    Every rule still has its verdict.
    """
    one = scratch().make().mount()
    run("umount", one.mount_point)
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        tool(tmp_path / "tools", "dumpe2fs", script)
        source = LiveSource(seconds, search_path=(str(tmp_path / "tools"),))
        number = Path(device).stat().st_rdev

        host = assemble_host(
            source, TAKEN_AT, only=[DeviceNumber(number >> 8 & 0xFFF, number & 0xFF)]
        )
        (fs,) = host.filesystems
        dumped = source.fetch(RunCommand(("dumpe2fs", "-h", device)))
        found = derive("superblock", parse_superblock, dumped)
        assert isinstance(found, Unknown)
        assert found.why is why
        assert isinstance(fs.superblock, Known)
        assert fs.superblock.origin == f"1024 bytes at 1024 of {device}"
        report = audit(ReportSource("live", "test"), host, all_rules())
        assert len(report.verdicts) == len(all_rules())
        assert all(v.outcome is not Outcome.ERROR for v in report.verdicts)
    finally:
        run("losetup", "--detach", device)


def test_scan_without_sys(scratch: Make) -> None:
    """With /sys hidden, disabled barriers are found; the unknown disks are reported as a gap."""
    one = scratch().make().mount("nobarrier")
    with overmounted("/sys"):
        document = scan_json(one.mount_point, code=1)
    (fs,) = document["filesystems"]
    assert fs["stack"] == []
    assert "nobarrier" in fs["options"]["effective"]
    verdict = next(v for v in document["verdicts"] if v["rule"] == "DUR001")
    assert verdict["findings"][0]["confidence"] == "possible"
    assert "/sys" in hints(document)
    assert document["complete"] is False


def test_scan_without_the_options_file(scratch: Make) -> None:
    """With /proc/fs hidden, the superblock shows it; a plain mount table alone would not."""
    one = scratch().make().tune("-o", "nobarrier").mount()
    with overmounted("/proc/fs"):
        document = scan_json(one.mount_point, code=1)
    (fs,) = document["filesystems"]
    assert (fs["options"]["complete"], fs["options"]["hidden"]) == (False, ["nobarrier"])
    assert outcomes(document)["DUR001"] == "fail"


def test_barriers_are_undetermined_without_options_file_and_superblock(
    scratch: Make,
) -> None:
    """`rw,relatime` in a mount table proves nothing: the verdict is undetermined, not a pass."""
    one = scratch().make().mount()
    one.mount_point.parent.chmod(0o700)  # nobody cannot ask via the mount point either
    with overmounted("/proc/fs"):
        document = scan_json(one.device, program=NOBODY, code=3)
    assert document["filesystems"][0]["superblock_source"] is None
    assert outcomes(document)["DUR001"] == "undetermined"
    assert document["complete"] is False


def test_scan_without_proc_fs_and_sys_fs_has_a_gap() -> None:
    """If neither list of live superblocks can be read, the report has a gap."""
    with overmounted("/proc/fs", "/sys/fs"):
        document = scan_json()
    assert [gap["why"] for gap in document["gaps"]] == ["absent"]
    assert document["complete"] is False


def test_in_a_container_the_hosts_superblocks_are_judged_and_fstab_is_not(
    scratch: Make, tmp_path: Path
) -> None:
    """In an overlay root with a container's marker file, only drift is not applicable."""
    one = scratch().make().mount("nobarrier")
    run("mount", "-t", "tmpfs", "none", tmp_path)
    root, upper, work = (tmp_path / name for name in ("root", "upper", "work"))
    for place in (root, upper, work):
        place.mkdir()
    run("mount", "-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "x", root)
    (root / ".dockerenv").touch()
    for name in ("proc", "sys"):
        run("mount", "--rbind", f"/{name}", root / name)
    try:
        document = scan_json(program=("chroot", str(root), *PROGRAM))
    finally:
        for name in ("proc", "sys"):
            run("umount", "-l", root / name)
        run("umount", root)
        run("umount", "-l", tmp_path)
    assert document["host"]["container"] == "docker"
    name = one.device.removeprefix("/dev/")
    (fs,) = [fs for fs in document["filesystems"] if fs["device"].endswith(name)]
    found = {v["rule"]: v["outcome"] for v in document["verdicts"] if v["filesystem"] == fs["id"]}
    assert found["DUR001"] == "fail"
    assert found["DRF001"] == "not_applicable"
