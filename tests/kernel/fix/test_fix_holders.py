"""The script of `ext4audit fix` finds what holds a real mount, in every shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from ext4audit.remedies import quote
from support.remedies.shell import RemedyShell
from support.timing import HANG_SECONDS

pytestmark = pytest.mark.kernel

LIBRARY = resources.files("ext4audit.fixing").joinpath("fix.sh")
CHECK = """\
set -u
export LC_ALL=C # as the script does: mount points of other tests have bytes that are no UTF-8
id=test
{library}
holders {where} {key} {name} {number} || stop "$problem"
"""
OCTAL = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
"""Characters that mountinfo escapes."""


def words(shell: RemedyShell) -> dict[str, str | None]:
    """Return the shell-quoted arguments of the check."""
    key = "".join(OCTAL.get(character, character) for character in str(shell.where))
    number = str(shell.mountinfo().device_number)
    return {
        "where": quote(str(shell.where)),
        "key": quote(key),
        "name": shell.name,
        "number": number,
    }


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RemedyShell]:
    """Mount a filesystem on a directory with the name of the parameter."""
    shell = RemedyShell(tmp_path, getattr(request, "param", "data"))
    try:
        shell.mount("noatime")
        yield shell
    finally:
        shell.close()


NEED_CARE = ("two words #1", "$(x) 'é")
"""Names that need quoting in a shell or escapes in a mount table."""
SHELLS = ("dash", "bash", "dash -f", "busybox sh", 'PATH="{folder}/bin:$PATH" busybox sh')
"""The last one uses the awk, grep and tr of busybox; -f disables pathname expansion."""
IN_MOUNT = 'cd "$(cat {folder}/where)" && '


def found(shell: RemedyShell, interpreter: str = "sh") -> str:
    """Run the check of the mount point in the namespace; return what it names, "" if it passes."""
    busybox = shutil.which("busybox")
    if "busybox" in interpreter and busybox is None:
        pytest.skip("needs busybox")
    script = shell.folder / "check"
    script.write_text(CHECK.format(library=LIBRARY.read_text(encoding="utf-8"), **words(shell)))
    tools = shell.folder / "bin"
    if not tools.exists():
        tools.mkdir()
        for tool in ("awk", "grep", "sed", "tr"):
            (tools / tool).symlink_to(busybox or "busybox")
    done = shell.run(f"{interpreter.format(folder=shell.folder)} {script}")
    assert (done.returncode == 0) is (done.stderr == b"")
    return done.stderr.decode()


def within(shell: RemedyShell, command: str) -> None:
    """Run a command with the mount point as the working directory."""
    shell.check(IN_MOUNT.format(folder=shell.folder) + command)


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


@pytest.mark.parametrize("shell", NEED_CARE, indirect=True)
@pytest.mark.parametrize(("hold", "release", "name"), HELD.values(), ids=HELD.keys())
def test_check_names_the_users_of_a_real_mount(
    shell: RemedyShell, hold: str, release: str, name: str
) -> None:
    """It passes before and after, in each shell."""
    within(shell, hold.format(folder=shell.folder))
    try:
        named = {found(shell, interpreter) for interpreter in SHELLS}
    finally:
        within(shell, release.format(folder=shell.folder))
    assert len(named) == 1, named
    assert name.format(folder=shell.folder) in named.pop()
    assert {found(shell, interpreter) for interpreter in SHELLS} == {""}


@pytest.mark.parametrize(
    ("parent", "propagation", "holds"),
    [("private", "private", True), ("private", "slave", True), ("shared", "slave", False)],
)
def test_mount_in_another_namespace_blocks_unless_it_is_a_slave(
    shell: RemedyShell, parent: str, propagation: str, *, holds: bool
) -> None:
    """The private /tmp of a service is a slave of the host's mounts, and unmounts with them."""
    shell.check(f"mount --make-r{parent} /")
    inner = f"unshare -m --propagation {propagation} sh -c 'echo $$; exec sleep {HANG_SECONDS}'"
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
    assert (f"in the mount namespace of process {pid}" in named) is holds
    assert remains is holds


AUTOMOUNT = """\
import os, subprocess, sys
_, pipe = os.pipe()
how = f"fd={pipe},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
words = ["mount", "-t", "autofs", "-o", how, "systemd-1", open(sys.argv[1]).read()]
subprocess.run(words, pass_fds=[pipe], check=True)
"""


def test_automount_below_the_mount_blocks_it(shell: RemedyShell) -> None:
    """An automount, as of x-systemd.automount, mounts again on the next access."""
    where = shell.folder / "where"
    shell.unmount()
    (shell.folder / "automount.py").write_text(AUTOMOUNT)
    shell.check(f"{sys.executable} {shell.folder}/automount.py {where}")
    shell.mount("noatime")
    try:
        named = {found(shell, interpreter) for interpreter in SHELLS}
    finally:
        shell.unmount()
        shell.check(f'umount "$(cat {where})"')
        shell.mount("noatime")
    assert len(named) == 1
    assert "in use by the automount on " in named.pop()
    assert found(shell) == ""


def test_swap_file_blocks_the_unmount(shell: RemedyShell) -> None:
    """Unmounting fails while the swap file is in use."""
    within(shell, "dd if=/dev/zero of=swap bs=64k count=16 && chmod 600 swap && mkswap swap")
    if shell.run(f"{IN_MOUNT.format(folder=shell.folder)} swapon swap").returncode != 0:
        pytest.skip("this kernel takes no swap file here")
    try:
        assert "the swap file " in found(shell)
    finally:
        within(shell, "swapoff swap")
    assert found(shell) == ""


OPENED = """\
set -u
id=test
{library}
unopened {device} name -p command undo done || stop "$problem"
"""


@pytest.mark.parametrize(
    ("seconds", "by_file", "is_refused"),
    [(1, False, False), (HANG_SECONDS, False, True), (HANG_SECONDS, True, True)],
)
def test_briefly_opened_device_is_checked_again(
    shell: RemedyShell, seconds: int, *, by_file: bool, is_refused: bool
) -> None:
    """A device is opened briefly by udev after each change; a virtual machine keeps it open.

    Of a loop device, it may have the file open.
    """
    script = shell.folder / "check"
    script.write_text(
        OPENED.format(library=LIBRARY.read_text(encoding="utf-8"), device=shell.device)
    )
    name = shell.device.removeprefix("/dev/")
    file = Path(f"/sys/block/{name}/loop/backing_file").read_text().removesuffix("\n")
    with Path(file if by_file else shell.device).open("rb") as opened:
        holder = subprocess.Popen(["sleep", str(seconds)], stdin=opened)
    try:
        done = shell.run(f"sh {script}")
    finally:
        holder.kill()
        holder.wait()
    assert (b"has %s open" % shell.device.encode() in done.stderr) is is_refused
    assert (done.returncode == 0) is not is_refused
