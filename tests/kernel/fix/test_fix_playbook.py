"""The playbook of `ext4audit fix -f ansible`, run by ansible-core in a mount namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.filesystems.scratch import run
from support.program import run as run_program
from support.remedies.fixing import FixScenario
from support.timing import PATIENCE_SECONDS

ANSIBLE = os.environ.get("EXT4AUDIT_ANSIBLE") or shutil.which("ansible-playbook")
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(ANSIBLE is None, reason="needs ansible-playbook, or EXT4AUDIT_ANSIBLE"),
]


@pytest.fixture(scope="module")
def posix() -> None:
    """Skip if Ansible lacks the collection that mounts: `.ci/ansible FOLDER` installs it."""
    galaxy = Path(str(ANSIBLE)).with_name("ansible-galaxy")
    found = subprocess.run(
        [galaxy, "collection", "list", "ansible.posix"], capture_output=True, check=False
    )
    if b"ansible.posix" not in found.stdout:
        end = pytest.fail if "EXT4AUDIT_ANSIBLE" in os.environ else pytest.skip
        end("needs the collection ansible.posix, and EXT4AUDIT_ANSIBLE")


@pytest.fixture
def scene(tmp_path: Path, etc: Path, posix: None) -> Iterator[FixScenario]:  # noqa: ARG001 - acts
    """Mount a filesystem whose fstab line has blanks between six fields; hide /var/lib.

    The filesystem that hides it is noexec, as /var is on hardened hosts.
    """
    image, where = tmp_path / "image", tmp_path / "data"
    where.mkdir()
    run("truncate", "-s", "64M", image)
    run("mke2fs", "-q", "-F", "-t", "ext4", image)
    device = run("losetup", "--find", "--show", image).strip()
    etc.write_text(f"# first\n{device} {where} ext4 nobarrier,noatime 0 2\n")
    run("mount", "-t", "ext4", "-o", "nobarrier,noatime", device, where)
    run("mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", "/var/lib")
    yield FixScenario(tmp_path, device, where, etc)
    run("umount", "/var/lib")
    run("umount", where)
    run("losetup", "--detach", device)


def play(scene: FixScenario, *options: str) -> dict[str, int]:
    """Run the playbook, and return the counts of its recap."""
    folder = scene.folder / "ansible"
    env = {
        **os.environ,
        "ANSIBLE_HOME": str(folder),
        "ANSIBLE_LOCAL_TEMP": str(folder / "local"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "remote"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "False",
    }
    words = {"ansible_python_interpreter": sys.executable, "ansible_become": "false"}
    extra = [word for key, value in words.items() for word in ("-e", f"{key}={value}")]
    done = subprocess.run(
        [
            str(ANSIBLE),
            "-i",
            "localhost,",
            "-c",
            "local",
            *extra,
            *options,
            scene.folder / "fix.yml",
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recap = done.stdout.rpartition("PLAY RECAP")[2].rpartition(" : ")[2]
    return {key: int(value) for key, _, value in (w.partition("=") for w in recap.split())}


def test_check_mode_and_second_run_change_nothing(scene: FixScenario) -> None:
    """After the first run the audit has none of the findings left."""
    rules = ("--select", "DUR001,CMP003")
    path = str(scene.folder / "fix.yml")
    options = ("--disruption", "remount", *rules, "-f", "ansible", "-o", path)
    assert run_program("fix", str(scene.mount_point), *options).returncode == 0
    before = scene.state()
    assert play(scene, "--check", "--diff")["changed"] > 0
    assert scene.state() == before
    assert play(scene)["changed"] == 2
    fixed = scene.state()
    assert scene.fstab.read_text().splitlines()[1].startswith("UUID=")
    assert play(scene)["changed"] == 0
    assert scene.state() == fixed
    assert run_program("scan", str(scene.mount_point), *rules).returncode == 0
    run("umount", scene.mount_point)
    run("mount", scene.mount_point)
    assert run_program("scan", str(scene.mount_point), *rules).returncode == 0


def test_a_second_run_does_not_check_the_filesystem_again(scene: FixScenario) -> None:
    """A check would unmount it on each run."""
    run("umount", scene.mount_point)
    run("debugfs", "-w", "-R", "ssv error_count 3", scene.device)
    run("mount", scene.mount_point)
    path = str(scene.folder / "fix.yml")
    options = ("--disruption", "unmount", "--select", "HLT001", "-f", "ansible", "-o", path)
    assert run_program("fix", str(scene.mount_point), *options).returncode == 0
    assert [play(scene)["changed"] for _ in range(2)] == [3, 0]


def test_a_directory_with_two_lines_is_left_to_the_script(scene: FixScenario) -> None:
    """The Ansible module would change both lines."""
    other = f"tmpfs {scene.mount_point} tmpfs noauto 0 0\n"
    scene.fstab.write_text(scene.fstab.read_text() + other)
    path = str(scene.folder / "fix.yml")
    options = ("--select", "CMP003", "-f", "ansible", "-o", path)
    assert run_program("fix", str(scene.mount_point), *options).returncode == 0
    play(scene)
    lines = scene.fstab.read_text().splitlines(keepends=True)
    assert lines[1].startswith("UUID=")
    assert lines[2] == other
