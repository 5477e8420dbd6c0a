"""State that an unmount would lose for good on a real filesystem: the `fix` script refuses it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.filesystems.idmapped import SHIFT, mount_idmapped
from support.filesystems.scratch import Scratch, run
from support.remedies.fixing import SHELLS, FixScenario

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("remedies")]
WRITEBACK = "data=writeback,errors=remount-ro"
ANEW = ("--disruption", "unmount", "--select", "DUR003", "--fail-on", "low")


@pytest.fixture
def scene(tmp_path: Path, scratch: Callable[..., Scratch], etc: Path) -> Iterator[FixScenario]:
    """Mount a filesystem that only an unmount can fix, on a loop device that stays attached."""
    one = scratch().make()
    device = run("losetup", "--find", "--show", one.image).strip()
    etc.write_text("")
    one.mount_point.mkdir()
    try:
        run("mount", "-t", "ext4", "-o", WRITEBACK, device, one.mount_point)
        yield FixScenario(tmp_path, device, one.mount_point, etc)
    finally:
        one.unmount()
        subprocess.run(["losetup", "--detach", device], check=False, capture_output=True)


def detach(scene: FixScenario) -> None:
    """Detach the loop device on last close, as after mount -o loop."""
    run("losetup", "--detach", scene.device)


def map_ids(scene: FixScenario) -> None:
    """Replace the mount by an ID-mapped mount."""
    other = scene.folder / "other"
    other.mkdir()
    run("mount", "--move", scene.mount_point, other)
    mount_idmapped(other, scene.mount_point)
    run("umount", other)
    assert scene.mount_point.stat().st_uid == SHIFT


def fail(scene: FixScenario) -> None:
    """Trigger an ext4 error, which makes the kernel refuse writes until the next mount."""
    Path(f"/sys/fs/ext4/{scene.name}/trigger_fs_error").write_text("by a test\n")


def share(scene: FixScenario) -> None:
    """Propagate mounts on it to other mount namespaces; mounts around it are private."""
    run("mount", "--make-shared", scene.mount_point)


def keep(scene: FixScenario) -> None:
    """Add an option that only mount(8) records."""
    run("mount", "-o", "remount,x-late", scene.mount_point)


@pytest.mark.parametrize("shell", [words for _, words in SHELLS], ids=[name for name, _ in SHELLS])
def test_programs_are_those_of_the_path_in_each_shell(scene: FixScenario, shell: list[str]) -> None:
    """The mount of busybox passes x-* to the kernel, and its cp loses extended attributes."""
    run("mount", "-o", "remount,x-systemd.device-timeout=5s", scene.mount_point)
    scene.fstab.write_text(f"{scene.device} {scene.mount_point} ext4 x-a,data=writeback 0 2\n")
    os.setxattr(scene.fstab, "user.kept", b"1")
    before, words = scene.state(), tuple(shell)
    scene.write_script(*ANEW)
    for option in ("--apply", "--undo"):
        done = scene.run_script(option, shell=words)
        assert done.returncode == 0, done.stderr
        assert os.getxattr(scene.fstab, "user.kept") == b"1"
    assert scene.state() == before


@pytest.mark.parametrize("mode", ["none", "fail", "kill"])
def test_settings_in_sysfs_outlive_the_unmount(scene: FixScenario, mode: str) -> None:
    """Settings from before are kept, and a rollback keeps those changed since."""
    folder = Path(f"/sys/fs/ext4/{scene.name}")
    first, second = folder / "mb_group_prealloc", folder / "extent_max_zeroout_kb"
    first.write_text("1024")
    scene.write_script(*ANEW)
    at = 0 if mode == "none" else calls_until_the_mount(scene)
    done = scene.run_script("--apply", path=scene.inject(at, mode))
    assert (done.returncode == 0) is (mode == "none"), done.stderr
    if mode == "none":
        assert first.read_text() == "1024\n"
    else:
        assert os.path.ismount(scene.mount_point) is (mode == "fail")
        assert scene.run_script("--apply").returncode == 0
    second.write_text("64")
    assert scene.run_script("--undo").returncode == 0
    assert "data=writeback" in str(scene.state()["mounts"])
    assert (first.read_text(), second.read_text()) == ("1024\n", "64\n")


def calls_until_the_mount(scene: FixScenario) -> int:
    """Return the number of the call that mounts the filesystem again."""
    assert scene.run_script("--apply", path=scene.inject(0, "fail")).returncode == 0
    assert scene.run_script("--undo").returncode == 0
    for at in range(1, scene.calls):
        done = scene.run_script("--apply", path=scene.inject(at, "fail"))
        assert scene.run_script("--undo").returncode == 0
        if "failed: mount -t ext4" in done.stderr:
            return at
    raise AssertionError(done.stderr)


@pytest.mark.parametrize(
    ("change", "reason", "omitted"),
    [
        (detach, "would detach its loop device", "No commands: the unmount detaches /dev/loop"),
        (share, "the propagation of the mount", "No commands: the propagation of the mount is"),
        (fail, "has errors on record", "nothing to fix"),
        (map_ids, "is an idmapped mount", "No commands: it is an idmapped mount"),
    ],
)
def test_no_unmount_if_a_mount_cannot_restore_the_state(
    scene: FixScenario, change: Callable[[FixScenario], None], reason: str, omitted: str
) -> None:
    """Neither an old script nor a new one unmounts it: it stayed unmounted, or lost its owners."""
    scene.write_script(*ANEW)
    assert "1 to apply" in scene.run_script().stdout
    change(scene)
    before = scene.state()
    for words in ((), ("--apply",)):
        done = scene.run_script(*words)
        assert done.returncode == 1
        assert reason in done.stderr
    assert omitted in scene.write_script(*ANEW).stderr
    assert "nothing to do" in scene.run_script("--apply").stdout
    assert scene.state() == before


LIST = "nobarrier,nodelalloc"
LISTED = ("--disruption", "remount", "--select", "DUR001", "--fail-on", "info")


@pytest.fixture
def listed(scene: FixScenario) -> FixScenario:
    """Store two options in the superblock, which only debugfs can write there again, unmounted."""
    run("umount", scene.mount_point)
    run("debugfs", "-w", "-R", f"set_super_value mount_opts {LIST}", scene.device)
    run("mount", "-t", "ext4", "-o", "x-a", scene.device, scene.mount_point)
    scene.write_script(*LISTED)
    return scene


def stored(scene: FixScenario) -> str:
    """Return the list of options in the superblock."""
    (line,) = re.findall("^Mount options: +(.*)$", run("tune2fs", "-l", scene.device), re.MULTILINE)
    return str(line)


def test_a_step_that_only_an_unmount_takes_back_unmounts_nothing_in_use(
    listed: FixScenario,
) -> None:
    """Its undo unmounted a filesystem with a second mount, wrote nothing and mounted it again."""
    assert listed.run_script("--apply").returncode == 0
    second = listed.folder / "second"
    second.mkdir()
    run("mount", "--bind", listed.mount_point / "lost+found", second)
    before = Path("/proc/self/mountinfo").read_text()
    try:
        done = listed.run_script("--undo")
        assert done.returncode == 1
        assert f"is in use by the mount on {second}; --undo tries again" in done.stderr
        assert Path("/proc/self/mountinfo").read_text() == before
    finally:
        run("umount", second)
    assert listed.run_script("--undo").returncode == 0
    assert stored(listed) == LIST


def test_an_undo_that_was_killed_while_it_was_unmounted_is_repeated(listed: FixScenario) -> None:
    """The next one does not unmount what is not mounted, and mounts it."""
    assert listed.run_script("--apply").returncode == 0
    at = 0
    while os.path.ismount(listed.mount_point):
        at += 1
        assert stored(listed) == "nodelalloc"
        listed.run_script("--undo", path=listed.inject(at, "kill"))
    done = listed.run_script("--undo")
    assert done.returncode == 0, done.stderr
    assert os.path.ismount(listed.mount_point)
    assert stored(listed) == LIST


def test_a_step_that_only_an_unmount_takes_back_keeps_the_settings(listed: FixScenario) -> None:
    """As every unmount of the script does: those in sysfs, and what only mount(8) keeps."""
    setting = Path(f"/sys/fs/ext4/{listed.name}/mb_group_prealloc")
    assert listed.run_script("--apply").returncode == 0
    assert stored(listed) == "nodelalloc"
    setting.write_text("1024")
    done = listed.run_script("--undo")
    assert done.returncode == 0, done.stderr
    assert f"{listed.mount_point} is unmounted and mounted again" in done.stdout
    assert (stored(listed), setting.read_text()) == (LIST, "1024\n")
    assert "OPTS=x-a" in str(listed.state()["kept by mount(8)"])


def test_user_options_are_restored(scene: FixScenario) -> None:
    """A script written before the option was set refuses; a new one restores the option."""
    scene.write_script(*ANEW)
    keep(scene)
    before = scene.state()
    assert "has the options x-late of mount(8)" in scene.run_script("--apply").stderr
    assert scene.state() == before
    scene.write_script(*ANEW)
    assert scene.run_script("--apply").returncode == 0
    assert "OPTS=x-late" in str(scene.state()["kept by mount(8)"])
    assert scene.run_script("--undo").returncode == 0
    assert scene.state() == before


def test_undo_does_not_mount_after_an_error(scene: FixScenario) -> None:
    """The rollback would mount it, which permits the writes that the kernel has stopped."""
    scene.write_script(*ANEW)
    assert scene.run_script("--apply").returncode == 0
    fail(scene)
    before = scene.state()
    done = scene.run_script("--undo")
    assert (done.returncode, "has errors on record: check it" in done.stderr) == (1, True)
    assert scene.state() == before
    run("umount", scene.mount_point)
    subprocess.run(["e2fsck", "-fy", scene.device], check=False, capture_output=True)
    run("mount", "-t", "ext4", scene.device, scene.mount_point)
    assert scene.run_script("--undo").returncode == 0
    assert "data=writeback" in str(scene.state()["mounts"])
