"""Side effects that a printed command must never have, on the real kernel."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ext4audit import remedies
from ext4audit.engine import judge
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase, Step
from ext4audit.renderers.shared.commands import phases
from ext4audit.report import Outcome
from ext4audit.rules.health.hlt003_unclean_needs_fsck import check as unclean
from support.filesystems.scratch import (
    Scratch,
    apply_remedy,
    judge_host,
    roll_back,
    run,
    run_in_shell,
    run_shell,
    scanned_host,
)

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("remedies")]
Make = Callable[..., Scratch]
E2FSCK_GAVE_UP = 4
"""Errors are left uncorrected (e2fsck(8))."""


def in_force(one: Scratch) -> set[str]:
    """Return the tokens in force."""
    return {option.token for option in need(one.filesystem().options).options}


@pytest.mark.parametrize(
    "fstab",
    ["nobarrier,discard,commit=99", "ro,nosuid,noexec,noatime,sync", "users,strictatime"],
)
def test_remount_activates_no_other_fstab_option(scratch: Make, etc: Path, fstab: str) -> None:
    """Fstab sets more than is in force: the cure of one option changes no other."""
    one = scratch().make().mount("noauto_da_alloc")
    etc.write_text(f"{one.image} {one.mount_point} ext4 loop,{fstab} 0 0\n")
    before, flags = in_force(one), one.filesystem().mounts[0]
    (finding,) = one.judge("DRF001").findings
    back = next(remedy for remedy in finding.remedies if "Revert to" in remedy.summary)
    apply_remedy(back)
    assert before ^ in_force(one) == {"noauto_da_alloc", "auto_da_alloc"}
    after = one.filesystem().mounts[0]
    assert (after.mount_options, set(after.super_options) - {"noauto_da_alloc"}) == (
        flags.mount_options,
        set(flags.super_options) - {"noauto_da_alloc"},
    )
    roll_back(back)
    assert in_force(one) == before


def test_no_command_for_an_overmounted_mount(scratch: Make) -> None:
    """A remount by mount point would affect the filesystem on top."""
    below = scratch("same").make().mount("nobarrier")
    device = below.device
    above = scratch("same").make().mount()
    verdict = judge_host(scanned_host(device), "DUR001")
    assert verdict.outcome is Outcome.FAIL
    assert "as soon as no other mount hides it" in verdict.findings[0].remedies[0].summary
    assert verdict.findings[0].remedies[0].steps == ()
    assert above.judge("DUR001").outcome is Outcome.PASS


def test_edit_of_a_changed_fstab_fails_and_keeps_copies(scratch: Make, etc: Path) -> None:
    """The verification of a line's second edit fails; the previous content is kept."""
    one = scratch().make().mount("commit=30,max_batch_time=30000")
    original = f"{one.image} {one.mount_point} ext4 loop,noatime 0 0\n"
    etc.write_text(original)
    (finding,) = one.judge("DRF001").findings
    keep = next(remedy for remedy in finding.remedies if "Keep" in remedy.summary)
    apply_remedy(keep)
    (copy,) = Path("/etc").glob("fstab.2*")
    assert copy.read_text() == original
    etc.write_text(original.replace("noatime", "relatime"))
    run("rm", *Path("/etc").glob("fstab.2*"))
    changed = etc.read_bytes()
    with pytest.raises(AssertionError, match="sed -n 1p /etc/fstab"):
        apply_remedy(keep)
    assert etc.read_bytes() == changed
    assert [path.read_bytes() for path in Path("/etc").glob("fstab.2*")] == [changed]


def table_of(one: Scratch) -> list[str]:
    """Return the lines of mountinfo that show the filesystem, unchanged."""
    device = f" {one.device} "
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").split("\n")
    return [line for line in lines if device in line]


def options_file(one: Scratch) -> str:
    """Return the text of the options file."""
    return Path(f"/proc/fs/ext4/{one.filesystem().name}/options").read_text()


def without(text: str, *words: str) -> list[str]:
    """Return the words of a text except the given ones."""
    return [word for word in re.split(r"[\s,]+", text) if word not in words]


FLAGS = [
    "rw",
    "nosuid,nodev,noexec,noatime,lazytime,sync",
    "ro,nodiratime,strictatime",
    "nosymfollow,nosuid",
    "dirsync,noatime,nodiratime,data=writeback,commit=30",
]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("spec", ["B", "UUID=12345678-1234-1234-1234-123456789abc", "LABEL=gone"])
def test_a_line_of_another_device_for_the_same_directory_is_not_read(
    scratch: Make, etc: Path, spec: str, flags: str
) -> None:
    """mount(8) finds a line by the directory alone, so the remount names its device instead."""
    other, one = scratch("other").make().mount("noatime"), scratch().make()
    bystander = options_file(other), table_of(other)
    one.mount(f"{flags},nobarrier,noauto_da_alloc")
    name = other.device if spec == "B" else spec
    etc.write_text(f"{name} {one.mount_point} ext4 ro,noexec,commit=77,nodelalloc 0 0\n")
    fstab = etc.read_bytes()
    before, table = options_file(one), table_of(one)
    cure = one.judge("DUR001").findings[0].remedies[0]
    apply_remedy(cure)
    assert without(options_file(one), "barrier") == without(before, "nobarrier")
    assert [without(line) for line in table_of(one)] == [
        without(line, "nobarrier") for line in table
    ]
    assert one.judge("DUR001").outcome is Outcome.PASS
    roll_back(cure)
    assert (options_file(one), table_of(one)) == (before, table)
    assert (options_file(other), table_of(other)) == bystander
    assert etc.read_bytes() == fstab


def test_a_bind_mount_keeps_its_flags(scratch: Make, etc: Path, tmp_path: Path) -> None:
    """A remount of the whole filesystem changes no flag of a bind mount of a subtree."""
    etc.write_text("")
    one = scratch().make().mount("nobarrier,noatime")
    part = tmp_path / "part"
    part.mkdir()
    (one.mount_point / "sub").mkdir()
    run("mount", "--bind", one.mount_point / "sub", part)
    try:
        run("mount", "-o", "remount,bind,ro,nosuid,nodev,relatime", part)
        before, table = options_file(one), table_of(one)
        assert len(table) == 2
        cure = one.judge("DUR001").findings[0].remedies[0]
        apply_remedy(cure)
        changed = [without(line, "nobarrier") for line in table]
        assert [without(line) for line in table_of(one)] == changed
        roll_back(cure)
        assert (options_file(one), table_of(one)) == (before, table)
    finally:
        run("umount", part)


@pytest.fixture
def loop(scratch: Make) -> Iterator[tuple[Scratch, str]]:
    """Make a filesystem with a directory on a loop device that outlives its mounts."""
    one = scratch().make()
    device = run("losetup", "--find", "--show", one.image).strip()
    one.mount_point.mkdir()
    run("mount", "-t", "ext4", device, one.mount_point)
    (one.mount_point / "directory" / "below").mkdir(parents=True)
    one.unmount()
    try:
        yield one, device
    finally:
        one.unmount()
        run("losetup", "--detach", device)


def test_nothing_is_mounted_if_e2fsck_fails(loop: tuple[Scratch, str], etc: Path) -> None:
    """Lines pasted one by one mounted the damaged filesystem; chained commands stop."""
    etc.write_text("")
    one, device = loop
    run("debugfs", "-w", "-R", "clri directory", device)
    run("debugfs", "-w", "-R", "ssv state 3", device)
    run("mount", "-t", "ext4", device, one.mount_point)
    (finding,) = judge_host(scanned_host(device), "HLT001").findings
    (cure,) = (remedy for remedy in finding.remedies if remedy.steps)
    pasted = "\n".join(line for phase in phases(cure) for line in phase.commands)
    done = run_in_shell(pasted)
    assert done.returncode != 0
    assert b"UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY" in done.stdout + done.stderr
    assert not os.path.ismount(one.mount_point)
    refused = subprocess.run(["e2fsck", "-p", device], capture_output=True, check=False)
    assert refused.returncode == E2FSCK_GAVE_UP


@pytest.mark.parametrize("opened", ["device", "node", "image"])
def test_open_device_is_not_checked(scratch: Make, tmp_path: Path, opened: str) -> None:
    """A virtual machine opens its disk without O_EXCL, libvirt through another device node.

    It may also run from the image that somebody has attached to a loop device.
    """
    one = scratch().make()
    run("debugfs", "-w", "-R", "set_super_value state 0", one.image)
    device = run("losetup", "--find", "--show", one.image).strip()
    node = tmp_path / "node"
    minor = os.minor(Path(device).stat().st_rdev)
    run("mknod", node, "b", "7", str(minor))
    try:
        host = scanned_host(device)
        (finding,) = judge(unclean, None, host).findings
        (command, *_) = (step.command for step in finding.remedies[0].steps)
        with {"device": Path(device), "node": node, "image": Path(one.image)}[opened].open("rb"):
            assert subprocess.run(["sh", "-c", command], check=False).returncode == 1
            assert "not clean" in run("tune2fs", "-l", device)
        apply_remedy(finding.remedies[0])
    finally:
        run("losetup", "--detach", device)


def test_partition_of_an_open_disk_is_not_checked(tmp_path: Path) -> None:
    """A virtual machine opens the whole disk: the partition's own opens do not show it."""
    images = [tmp_path / name for name in ("part", "whole")]
    devices = []
    try:
        for image in images:
            run("truncate", "-s", "1M", image)
            devices.append(run("losetup", "--find", "--show", image).strip())
        part, *wholes = devices
        command = remedies.remount.unopened_device(part, wholes).text
        run_shell(command)
        for opened in devices:
            with Path(opened).open("rb"):
                assert subprocess.run(["sh", "-c", command], check=False).returncode == 1
    finally:
        for device in devices:
            run("losetup", "--detach", device)


@pytest.mark.parametrize(
    "steps",
    [
        remedies.features.clear_fast_commit,
        remedies.features.enable_large_dir,
        remedies.features.index_directories,
        lambda fs: remedies.options.clear_defaults(fs, {"acl": "noacl"}),
        lambda fs: remedies.options.clear_defaults(fs, {"barrier": "barrier"}),
        lambda fs: remedies.superblock_fields.set_stripe(fs, need(fs.superblock), 4, 8),
    ],
    ids=["fast_commit", "large_dir", "dir_index", "bits", "string", "stripe"],
)
def test_what_was_synced_before_a_crash_is_there_behind_a_change_of_the_superblock(
    scratch: Make, tmp_path: Path, steps: Callable[[Filesystem], tuple[Step, ...]]
) -> None:
    """tune2fs's replay omits fast commits; the next mount replays them and keeps the change.

    A copy of the mounted image has the state after a crash.
    """
    one = scratch().make("-O", "fast_commit").tune("-E", "mount_opts=nobarrier").mount()
    (one.mount_point / "old").touch()
    run("sync", "-f", one.mount_point)
    name = Path(one.device).name
    for number in range(5):
        run(
            "dd", "if=/dev/zero", f"of={one.mount_point}/{number}", "bs=4k", "count=3", "conv=fsync"
        )
    assert int(Path(f"/proc/fs/ext4/{name}/fc_info").read_text().split()[2])
    crashed = tmp_path / "crashed"
    run("cp", one.image, crashed)
    one.unmount()
    device = run("losetup", "--find", "--show", crashed).strip()
    try:
        done = steps(scanned_host(device).filesystems[0])
        assert done
        for step in done:
            run_shell(step.command)
        run("mount", device, one.mount_point)
        left = {path.name for path in one.mount_point.iterdir()}
        assert {str(number) for number in range(5)} <= left
        for step in done:
            if step.phase is Phase.VERIFY and "/proc/" not in step.command:
                run_shell(step.command)
        run("umount", one.mount_point)
        run("e2fsck", "-fn", device)
    finally:
        run("losetup", "--detach", device)
