from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ext4audit import audit_host
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import ReadFile, ResolvePath, Unanswered
from ext4audit.sources.live import LiveSource, files
from support.filesystems.scratch import Scratch
from support.program import run
from support.timing import PATIENCE_SECONDS

MORE_THAN_ANY_PROCESS = 4194304
"""PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h): no process has this number."""

HOST = """\
20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 8:2 / /srv rw - ext4 /dev/sdb rw
"""
SERVICE = """\
70 1 8:1 / / ro - ext4 /dev/sda1 rw
71 70 8:2 / /srv ro - ext4 /dev/sdb rw
72 70 8:1 /tmp/systemd-private-1/tmp /tmp rw - ext4 /dev/sda1 rw
"""


def reader(path: str) -> str:
    """Return the path of the host's mount table, or of a service's."""
    return {"/proc/1/mountinfo": HOST, "/proc/self/mountinfo": SERVICE}[path]


def test_a_mount_id_is_that_of_the_other_namespace() -> None:
    """The file of a loop device is on a mount that the host's table lists."""
    resolved = "mount_id=71\ndevice_number=8:2\ntype=file"
    expected = "mount_id=21\ndevice_number=8:2\ntype=file"
    assert files.translated(resolved, reader, 1) == expected


@pytest.mark.parametrize("mount_id", [72, 99])
def test_a_path_on_a_mount_of_the_service_alone_is_unknown(mount_id: int) -> None:
    """The private /tmp of a service is not the /tmp of the host."""
    with pytest.raises(Unanswered) as raised:
        files.translated(f"mount_id={mount_id}\ntype=file", reader, 1)
    assert raised.value.unknown("path /tmp/x").why is Why.UNSUPPORTED


def test_the_table_of_this_process_is_the_default() -> None:
    """Passing the id of this process as `mounts_of` changes nothing."""
    ask = ReadFile("/proc/self/mountinfo")
    own = LiveSource().fetch(ask)
    assert isinstance(own, Known)
    assert own == LiveSource(mounts_of=os.getpid()).fetch(ask)


HARDENED = """
awk '{print $5}' /proc/self/mountinfo | while read -r at; do
    mount -o remount,bind,ro "$at" 2>/dev/null
done
exec "$@"
"""
"""Does what ProtectSystem=strict does, before the program runs."""


@pytest.mark.kernel
@pytest.mark.usefixtures("private_mounts")
def test_a_hardened_service_reports_what_the_host_has(tmp_path: Path) -> None:
    """All mounts are read-only for the service, but remedies are for the mounts of the host."""
    scratch = Scratch(tmp_path / "image", tmp_path / "mnt").make().mount("errors=continue")
    try:
        scan = [sys.executable, "-m", "ext4audit", "scan", "-f", "json", "--select", "DUR006"]
        hardened = ["unshare", "-m", "sh", "-c", HARDENED, "sh", *scan]
        plain = filesystem(scan, scratch)
        assert "remount" in str(plain["remedies"])
        assert filesystem([*hardened, f"--mounts-of={os.getpid()}"], scratch) == plain
        assert filesystem(hardened, scratch) != plain
    finally:
        subprocess.run(["umount", str(scratch.mount_point)], check=True)


def filesystem(command: list[str], scratch: Scratch) -> dict[str, Any]:
    """Return the mount options and the remedies of the filesystem that a scan reports."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    report = json.loads(done.stdout)
    place = str(scratch.mount_point)
    (ours,) = (fs for fs in report["filesystems"] if place in fs["mount_points"])
    (verdict,) = (v for v in report["verdicts"] if v["filesystem"] == ours["id"])
    (finding,) = verdict["findings"]
    return {"options": ours["options"]["mount_table"], "remedies": finding["remedies"]}


def test_a_process_that_is_gone_is_a_gap() -> None:
    """If it ends during a scan, the scan is incomplete and uses no other mount table."""
    report = audit_host(mounts_of=MORE_THAN_ANY_PROCESS)
    assert not report.complete
    gaps = {gap.what: gap.detail for gap in report.host.gaps}
    why = f"/proc/{MORE_THAN_ANY_PROCESS}/mountinfo: No such file or directory"
    assert gaps["/proc/self/mountinfo"] == why
    paths = LiveSource(mounts_of=MORE_THAN_ANY_PROCESS).fetch(ResolvePath("/"))
    assert isinstance(paths, Unknown)
    assert paths.detail == why


def test_a_process_that_is_not_there_is_refused() -> None:
    """The exit status is 2: the number is wrong, or belongs to another PID namespace."""
    done = run("scan", "--mounts-of", str(MORE_THAN_ANY_PROCESS))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"there is no /proc/{MORE_THAN_ANY_PROCESS}" in done.stderr


def test_captured_hosts_have_their_own_mount_table() -> None:
    """The exit status is 2, before anything is read."""
    done = run("scan", "--from", "-", "--mounts-of", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--mounts-of is for this host, and --from for captured ones" in done.stderr
