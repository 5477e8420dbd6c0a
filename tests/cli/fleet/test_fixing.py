"""`ext4audit fleet fix` over a real sshd, on a real filesystem in the hosts' namespace."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.filesystems.scratch import run
from support.program import environment
from support.sshd import STUBBORN, Fleet
from support.timing import PATIENCE_SECONDS

pytestmark = [pytest.mark.fleet, pytest.mark.kernel, pytest.mark.xdist_group("kernel")]

PROGRAM = str(Path(sys.executable).with_name("ext4audit"))
RULES = ("--select", "DUR001", "--disruption", "remount")


@pytest.fixture
def data(fleet: Fleet, tmp_path: Path) -> Iterator[Path]:
    """Mount a filesystem without barriers on the hosts, now and in their fstab."""
    image, where = tmp_path / "image", fleet.folder / "data"
    where.mkdir()
    run("truncate", "-s", "64M", image)
    run("mke2fs", "-q", "-F", "-t", "ext4", image)
    device = run("losetup", "--find", "--show", image).strip()
    uuid = run("blkid", "-p", "-s", "UUID", "-o", "value", device).strip()
    (fleet.folder / "etc" / "fstab").write_text(f"UUID={uuid} {where} ext4 nobarrier 0 2\n")
    fleet.inside("mount", "-t", "ext4", "-o", "nobarrier", device, where)
    fleet.inside("mount", "-t", "tmpfs", "tmpfs", "/var/lib")
    yield where
    fleet.inside("umount", "/var/lib")
    fleet.inside("umount", where)
    run("losetup", "--detach", device)
    where.rmdir()


def fix(fleet: Fleet, *options: str) -> tuple[int, list[str], str]:
    """Run the command; return its exit code, the lines about hosts, and Ansible's output."""
    done = subprocess.run(
        [PROGRAM, "fleet", "fix", *RULES, *options],
        cwd=fleet.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    words = ("fixed", "already fixed", "would change", "failed", "not started")
    pattern = re.compile(rf"(?:h01|{STUBBORN}) +(?:{'|'.join(words)}): .*")
    hosts = list(filter(pattern.fullmatch, done.stdout.splitlines()))
    return done.returncode, hosts, done.stdout + done.stderr


def has_barriers(fleet: Fleet, where: Path) -> bool:
    """Return whether the filesystem has barriers; fstab must agree."""
    now = "nobarrier" not in fleet.inside("grep", f" {where} ", "/proc/self/mounts")
    assert now is ("nobarrier" not in (fleet.folder / "etc" / "fstab").read_text())
    return now


def test_without_apply_nothing_changes(fleet: Fleet, data: Path) -> None:
    """Ansible runs with --check --diff, and the script's guards are checked."""
    code, hosts, output = fix(fleet, "-i", "h01,")
    assert hosts == ["h01  would change: 1 remedy"], output
    assert code == 0
    assert not has_barriers(fleet, data)


def test_failed_verification_ends_the_run(fleet: Fleet, data: Path) -> None:
    """Its change is rolled back; later hosts are not changed, and are listed."""
    code, hosts, output = fix(fleet, "-i", f"{STUBBORN},h01,", "--apply")
    assert hosts[0].startswith(f"{STUBBORN}  failed: "), output
    assert hosts[1:] == ["h01       not started: 1 remedy"]
    assert code == 1
    assert not has_barriers(fleet, data)
    code, hosts, output = fix(fleet, "-i", "h01,", "--apply")
    assert hosts == ["h01  fixed: 1 remedy"], output
    assert code == 0
    assert has_barriers(fleet, data)
