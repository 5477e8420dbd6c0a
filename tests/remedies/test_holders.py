"""What holds a filesystem is named before it is unmounted: from facts, and when a command runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.remedies.holders import first_stop, holder_check, with_holders
from support.builders import filesystem, host, known, loop, mount, unknown
from support.remedies.shell import RemedyShell

ROOT = mount("/", number=DeviceNumber(8, 1), mount_id=1)
DATA = mount("/data", mount_id=30)


UNMOUNT = (Step(Phase.IMMEDIATE, "umount /data"),)


def overlay(point: str, *options: str) -> Mount:
    """Build an overlay on a directory of the root."""
    number = DeviceNumber(0, 50)
    seen = mount(point, number=number, mount_id=60, fstype="overlay")
    return seen._replace(super_options=("rw", *options), source="overlay")


def with_table(*mounts: Mount, **changes: Any) -> tuple[Filesystem, Host]:
    """Build /data, and a host with these mounts beside it."""
    fs = filesystem(mounts=(DATA,), **changes)
    return fs, host(fs, mounts=known((ROOT, DATA, *mounts)))


IMAGE = filesystem(number=DeviceNumber(7, 0), name="loop0", stack=known(loop()))
BELOW = mount("/data/tmp", number=DeviceNumber(0, 44), mount_id=40, fstype="tmpfs")
HOLDERS = {
    "nothing": ((), ""),
    "the upper directory": (
        (overlay("/merged", "lowerdir=/usr", "upperdir=/data/up", "workdir=/data/work"),),
        "the overlay on /merged",
    ),
    "one of the lower": ((overlay("/m", "lowerdir=/usr:/data/a:/b"),), "the overlay on /m"),
    "a lower by fsconfig": ((overlay("/m", "lowerdir+=/data/a"),), "the overlay on /m"),
    "the mount point": ((overlay("/m", "lowerdir=/data"),), "the overlay on /m"),
    "a namesake": ((overlay("/m", "lowerdir=/database:relative"),), ""),
    "a mount that hides it": (
        (BELOW._replace(parent_id=1), overlay("/m", "lowerdir=/data/tmp/a")),
        "",
    ),
    "a mount on it": ((BELOW._replace(parent_id=30),), "the mount on /data/tmp"),
}


@pytest.mark.parametrize(("mounts", "name"), HOLDERS.values(), ids=HOLDERS.keys())
def test_holders_are_named_by_the_mount_table(mounts: tuple[Mount, ...], name: str) -> None:
    """An overlay holds the filesystem of each of its directories, a mount the one below it."""
    expected = f" First stop what holds it: {name}." if name else ""
    assert first_stop(*with_table(*mounts)) == expected


def test_a_loop_device_holds_the_filesystem_of_its_image() -> None:
    """It is found in the stack of whatever filesystem lies on it."""
    fs = filesystem()
    named = " First stop what holds it: the loop device loop0 (image /var/lib/image.img)."
    assert first_stop(fs, host(fs, IMAGE)) == named
    assert first_stop(fs, host(fs, idle=known((IMAGE,)))) == named
    assert first_stop(IMAGE, host(fs, IMAGE)) == ""


def test_the_other_mounts_of_it_are_holders() -> None:
    """An unmount of one place leaves the others."""
    fs = filesystem(mounts=(DATA, mount("/again", mount_id=31)))
    assert first_stop(fs, host(fs)) == " First stop what holds it: the mount on /again."


def test_hundreds_of_holders_are_counted() -> None:
    """Nobody reads the names of all containers."""
    many = [
        overlay(f"/c/{each}", f"upperdir=/data/{each}")._replace(mount_id=100 + each)
        for each in range(200)
    ]
    end = "the overlay on /c/0, the overlay on /c/1, the overlay on /c/2, 197 more."
    assert first_stop(*with_table(*many)).endswith(end)


def test_an_unread_mount_table_names_nothing() -> None:
    """The sentence adds to a remedy, and decides nothing."""
    fs = filesystem()
    assert first_stop(fs, host(fs, mounts=unknown("mount table"))) == ""


@pytest.mark.parametrize(
    ("disruption", "alive", "told"),
    [
        (Disruption.UNMOUNT, True, True),
        (Disruption.UNMOUNT, False, False),
        (Disruption.REMOUNT, True, False),
        (Disruption.REBOOT, True, False),
    ],
)
def test_only_what_unmounts_says_it(disruption: Disruption, *, alive: bool, told: bool) -> None:
    """A remount disturbs no holder, and a restart stops all of them."""
    fs, on = with_table(overlay("/merged", "lowerdir=/data"), alive=alive)
    remedy = with_holders(Remedy("Do it.", disruption, UNMOUNT), fs, on)
    assert (remedy.summary != "Do it.") is told


def test_nothing_is_said_of_advice() -> None:
    """Nothing that is run would be refused."""
    fs, on = with_table(overlay("/merged", "lowerdir=/data"))
    advice = Remedy("Use other drives.", Disruption.UNMOUNT)
    assert with_holders(advice, fs, on) == advice


def test_nothing_is_said_of_the_root() -> None:
    """It cannot be unmounted: the remedy says from where to work."""
    fs = filesystem(mounts=(ROOT, mount("/again", mount_id=31)))
    remedy = Remedy("Do it.", Disruption.UNMOUNT, UNMOUNT)
    assert with_holders(remedy, fs, host(fs)) == remedy


def test_a_mount_point_without_a_shell_word_is_refused() -> None:
    """A newline at the end has none."""
    with pytest.raises(ValueError, match="no shell word"):
        holder_check(mount("/a\n"))


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RemedyShell]:
    """Mount a filesystem on a directory of this name."""
    shell = RemedyShell(tmp_path, getattr(request, "param", "data"))
    try:
        shell.mount("noatime")
        yield shell
    finally:
        shell.close()


NEED_CARE = ("two words #1", "$(x) 'é")
"""Names that a shell, or a mount table, spells in another way."""
SHELLS = ("dash", "bash", "busybox sh", 'PATH="{folder}/bin:$PATH" busybox sh')
"""The last one has the awk, grep and tr of busybox."""
IN_MOUNT = 'cd "$(cat {folder}/where)" && '


def found(shell: RemedyShell, interpreter: str = "sh") -> str:
    """Run the check of the mount point in the namespace; return what it names, "" if it passes."""
    script = shell.folder / "check"
    script.write_text(holder_check(mount(str(shell.where))), encoding="utf-8")
    tools = shell.folder / "bin"
    if not tools.exists():
        tools.mkdir()
        for tool in ("awk", "grep", "tr"):
            (tools / tool).symlink_to("/usr/bin/busybox")
    done = shell.run(f"{interpreter.format(folder=shell.folder)} {script}")
    assert (done.returncode == 0) is (done.stderr == b"")
    return done.stderr.decode()


def within(shell: RemedyShell, command: str) -> None:
    """Run a command with the mount point as the working directory."""
    shell.check(IN_MOUNT.format(folder=shell.folder) + command)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
OVERLAY = 'mkdir -p a b c {out} && mount -t overlay -o "lowerdir=$PWD/a,{more}" overlay {out}'
HELD = {
    "overlay": (
        OVERLAY.format(out="{folder}/out", more="upperdir=$PWD/b,workdir=$PWD/c"),
        "umount {folder}/out",
        "the overlay on {folder}/out",
    ),
    "overlay that is read": (
        OVERLAY.format(out="{folder}/out", more="lowerdir={folder}:$PWD/a"),
        "umount {folder}/out",
        "the overlay on {folder}/out",
    ),
    "bind mount": (
        "mkdir {folder}/out && mount --bind . {folder}/out",
        "umount {folder}/out",
        "the mount on {folder}/out",
    ),
    "mount on it": ("mkdir t && mount -t tmpfs t t", "umount t", "the mount on "),
    "loop device": (
        "truncate -s 1M image && losetup -f --show image > {folder}/loop",
        "losetup -d $(cat {folder}/loop)",
        "the loop device loop",
    ),
}


@pytest.mark.kernel
@needs_root
@pytest.mark.parametrize("shell", NEED_CARE, indirect=True)
@pytest.mark.parametrize(("hold", "release", "name"), HELD.values(), ids=HELD.keys())
def test_the_check_names_what_holds_a_real_mount(
    shell: RemedyShell, hold: str, release: str, name: str
) -> None:
    """It passes before and after, and in each shell that a host may have."""
    within(shell, hold.format(folder=shell.folder))
    try:
        named = {found(shell, interpreter) for interpreter in SHELLS}
    finally:
        within(shell, release.format(folder=shell.folder))
    assert len(named) == 1
    assert name.format(folder=shell.folder) in named.pop()
    assert {found(shell, interpreter) for interpreter in SHELLS} == {""}


@pytest.mark.kernel
@needs_root
@pytest.mark.parametrize(
    ("parent", "propagation", "holds"),
    [("private", "private", True), ("private", "slave", True), ("shared", "slave", False)],
)
def test_a_copy_in_another_namespace_holds_it_unless_it_follows(
    shell: RemedyShell, parent: str, propagation: str, *, holds: bool
) -> None:
    """The private /tmp of a service is a slave of the host's mounts, and unmounts with them."""
    shell.check(f"mount --make-r{parent} /")
    inner = f"unshare -m --propagation {propagation} sh -c 'echo $$; exec sleep 60'"
    enter = ["nsenter", "-t", str(shell.holder.pid), "-m", "--", "sh", "-c", f"exec {inner}"]
    with subprocess.Popen(enter, stdout=subprocess.PIPE, text=True) as copy:
        try:
            assert copy.stdout is not None
            pid = copy.stdout.readline().strip()
            named = found(shell)
            shell.check(f'umount "$(cat {shell.folder}/where)"')
            remains = Path(f"/sys/fs/ext4/{shell.name}").exists()
            shell.mount("noatime")
        finally:
            copy.kill()
    assert (f"in the mount namespace of process {pid}\n" in named) is holds
    assert remains is holds


@pytest.mark.kernel
@needs_root
def test_a_swap_file_holds_it(shell: RemedyShell) -> None:
    """Unmounting fails while it is in use."""
    within(shell, "dd if=/dev/zero of=swap bs=64k count=16 && chmod 600 swap && mkswap swap")
    if shell.run(f"{IN_MOUNT.format(folder=shell.folder)} swapon swap").returncode != 0:
        pytest.skip("this kernel takes no swap file here")
    try:
        assert "the swap file " in found(shell)
    finally:
        within(shell, "swapoff swap")
    assert found(shell) == ""


@pytest.mark.kernel
@needs_root
def test_what_is_not_mounted_is_said(shell: RemedyShell) -> None:
    """A check that could not look does not pass."""
    shell.unmount()
    assert found(shell).endswith(" is not mounted\n")
    shell.mount("noatime")
