"""`ext4audit scan PATH`: the superblock that a path selects, on real mounts."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.filesystems.scratch import Scratch, run
from support.program import run as run_program

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return run_program(*map(str, arguments))


def audited(*paths: str | Path) -> tuple[list[str], str]:
    """Return the devices that a scan of these paths audits, and its stderr."""
    done = cli("scan", "-f", "json", *paths)
    found: dict[str, Any] = json.loads(done.stdout)
    return [fs["device"] for fs in found["filesystems"]], done.stderr


@pytest.fixture
def tmpfs(tmp_path: Path, private_mounts: None) -> Iterator[Path]:  # noqa: ARG001 - acts
    """Mount a tmpfs."""
    place = tmp_path / "tmpfs"
    place.mkdir()
    run("mount", "-t", "tmpfs", "none", place)
    yield place
    run("umount", "-l", place)


def test_a_file_a_directory_and_a_symlink_stand_for_their_filesystem(
    scratch: Make, tmp_path: Path
) -> None:
    """Any path on the filesystem selects it, even through a link from elsewhere."""
    one = scratch().make().mount()
    (one.mount_point / "file").touch()
    link = tmp_path / "link"
    link.symlink_to(one.mount_point / "file")
    for path in (one.mount_point / "file", one.mount_point / "lost+found", link, one.device):
        assert audited(path) == ([one.device], "")


def test_a_bind_mount_of_a_file_stands_for_where_the_file_is(scratch: Make, tmp_path: Path) -> None:
    """The mount ID of the open file is exact if the path's parent is on another filesystem."""
    one = scratch().make().mount()
    (one.mount_point / "conf").touch()
    place = tmp_path / "bound"
    place.touch()
    run("mount", "--bind", one.mount_point / "conf", place)
    try:
        assert audited(place) == ([one.device], "")
    finally:
        run("umount", place)


def test_of_two_filesystems_stacked_on_one_directory_the_upper_is_meant(scratch: Make) -> None:
    """A directory shows the filesystem that was mounted on it last."""
    lower = scratch("same").make().mount()
    below = lower.device
    upper = scratch("same").make().mount()
    devices = run("findmnt", "-n", "-o", "SOURCE", "--mountpoint", upper.mount_point).split()
    (top,) = set(devices) - {below}
    assert audited(upper.mount_point)[0] == [top]


def test_an_overlay_stands_for_the_filesystem_of_its_upper_directory(
    scratch: Make, tmpfs: Path
) -> None:
    """Writes to an overlay go to its upper directory: that filesystem is audited, with a note."""
    one = scratch().make().mount()
    upper, work = one.mount_point / "upper", one.mount_point / "work"
    lower, merged = tmpfs / "lower", tmpfs / "merged"
    for place in (upper, work, lower, merged):
        place.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    run("mount", "-t", "overlay", "-o", options, "none", merged)
    try:
        devices, reported = audited(merged)
        assert devices == [one.device]
        assert f"writes go to {upper}" in reported
    finally:
        run("umount", merged)


def test_an_overlay_on_tmpfs_is_refused_with_the_reason(tmpfs: Path) -> None:
    """An overlay whose upper directory is not on ext4 is a usage error that says so."""
    for name in ("lower", "upper", "work", "merged"):
        (tmpfs / name).mkdir()
    options = f"lowerdir={tmpfs}/lower,upperdir={tmpfs}/upper,workdir={tmpfs}/work"
    run("mount", "-t", "overlay", "-o", options, "none", tmpfs / "merged")
    try:
        done = cli("scan", tmpfs / "merged")
        assert (done.returncode, done.stdout) == (2, "")
        assert "not ext4: tmpfs" in done.stderr
    finally:
        run("umount", tmpfs / "merged")


def test_an_image_file_behind_a_loop_device_stands_for_what_is_in_it(scratch: Make) -> None:
    """The image is audited, not the filesystem that holds the file, and a note says so."""
    one = scratch().make().mount()
    devices, reported = audited(one.image)
    assert devices == [one.device]
    assert f"the image behind {one.device}" in reported


def test_an_unmounted_device_is_audited_from_its_superblock(scratch: Make) -> None:
    """An unmounted block device with ext4 is read, and rules say why they pass."""
    one = scratch().make()
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        # Other tests create devices at the same time, so the audit may be incomplete.
        done = cli("scan", "-f", "json", "--allow-incomplete", device)
        (fs,) = json.loads(done.stdout)["filesystems"]
        assert (done.returncode, fs["mounted"], fs["uuid"] is not None) == (0, False, True)
        assert "not mounted" in done.stderr
    finally:
        run("losetup", "--detach", device)


def test_an_unmounted_device_that_is_cut_off_is_reported(scratch: Make) -> None:
    """Its journal is lost, and dumpe2fs fails; the superblock is whole, and HLT007 looks at it."""
    one = scratch().make()
    run("truncate", "-s", "1M", one.image)
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        done = cli("scan", "-f", "json", "--select", "HLT007", device)
        assert done.returncode == 1, done.stderr
        assert "is cut off" in done.stdout
    finally:
        run("losetup", "--detach", device)


def test_a_device_without_ext4_is_refused(scratch: Make) -> None:
    """An empty device is a usage error: nothing is audited, and the message says why."""
    one = scratch()
    run("truncate", "-s", "16M", one.image)
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        done = cli("scan", device)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{device}: not ext4" in done.stderr
    finally:
        run("losetup", "--detach", device)


def test_targets_not_on_ext4_are_reported_and_skipped(scratch: Make, tmpfs: Path) -> None:
    """Beside an auditable target, a wrong one causes a message and no usage error."""
    one = scratch().make().mount()
    devices, reported = audited(one.mount_point, tmpfs)
    assert devices == [one.device]
    assert f"{tmpfs}: not ext4: tmpfs" in reported


def test_progress_is_shown_on_a_terminal_and_only_there(scratch: Make) -> None:
    """The terminal shows which device is being read; standard output only has the report."""
    one = scratch().make().mount()
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "ext4audit", "scan", "-f", "json", str(one.mount_point)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=follower,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(follower)
        shown = b""
        try:
            while chunk := os.read(leader, 4096):
                shown += chunk
        except OSError:
            pass  # the program has closed its end
        assert process.stdout is not None
        json.loads(process.stdout.read())
    os.close(leader)
    assert b"reading" in shown or b"looking for ext4" in shown


def test_a_report_is_never_written_over_a_block_device(scratch: Make) -> None:
    """`-o /dev/sda` is a typing error, and is refused before anything is read."""
    one = scratch().make()
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        done = cli("scan", "-q", "-o", device)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is a block device" in done.stderr
        one.fsck()
    finally:
        run("losetup", "--detach", device)


def test_no_command_for_a_second_device_of_a_mounted_filesystem(scratch: Make) -> None:
    """Through it, e2fsck and tune2fs would write to the mounted filesystem."""
    one = scratch().make("-O", "^metadata_csum").mount()
    second = run("losetup", "--find", "--show", one.image).strip()
    try:
        for target in (second, one.device):
            done = cli("scan", "-f", "json", "--pedantic", target)
            found: dict[str, Any] = json.loads(done.stdout)
            assert [fs["device"] for fs in found["filesystems"]] == [target]
            remedies = [
                remedy
                for verdict in found["verdicts"]
                for finding in verdict["findings"]
                for remedy in finding["remedies"]
            ]
            assert remedies
            commands = "\n".join(s["command"] for r in remedies for s in r["steps"])
            assert second not in commands
    finally:
        run("losetup", "--detach", second)
