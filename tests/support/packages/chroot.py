"""A small Debian in which packages are installed, run and removed, also under its systemd."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.packages.built import run, succeed, unavailable

BASE = os.environ.get("EXT4AUDIT_CHROOT", "")
"""The folder that .ci/packages/chroot wrote; it is not modified."""
SHARED = ("proc", "sys", "dev")
VOLATILE = ("var/lib/apt", "var/lib/dpkg", "var/lib/rpm", "var/cache", "var/log", "tmp")
"""What package managers and logs write; all else must be restored by removing a package."""

OF_BOOTING = (
    "etc/systemd/system/boot-test",
    "var/boot-test",
    "var/image",
    "var/plain.json",
    "var/lib/systemd",
    "old",
    "srv/data",
)
Files = dict[str, tuple[int, bytes]]
"""The mode and the content of each file, by its path."""

BOOT = r"""
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/srv/data"
mount -o loop "$root/var/image" "$root/srv/data"
cd "$root"
mkdir -p old
pivot_root . old
umount -l old
export container=other
exec /lib/systemd/systemd --system --unit=boot-test.target --log-target=null
"""
TARGET = "[Unit]\nWants=boot-test.service\n"
SERVICE = """[Service]
Type=oneshot
ExecStart=/bin/sh -c '{script}'
ExecStopPost=/bin/systemctl exit
StandardOutput=file:/var/boot-test.out
StandardError=file:/var/boot-test.out
"""


class Chroot:
    """A system whose root is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *argv: str, user: str = "0:0") -> subprocess.CompletedProcess[str]:
        """Run a program in the chroot."""
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        return run(
            "chroot",
            f"--userspec={user}",
            self.root,
            *argv,
            env={**variables, "DEBIAN_FRONTEND": "noninteractive"},
        )

    def succeed(self, *argv: str) -> str:
        """Run a program that must succeed, and return what it printed."""
        done = self.run(*argv)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def files(self) -> Files:
        """Return the mode and content of all files except those that package managers write."""
        return {str(path.relative_to(self.root)): _content(path) for path in self._walk()}

    def _walk(self) -> Iterator[Path]:
        left_out = {self.root / name for name in (*VOLATILE, *SHARED, "run")}
        for folder, folders, files in os.walk(self.root):
            here = Path(folder)
            folders[:] = [name for name in folders if here / name not in left_out]
            yield from (here / name for name in (*folders, *files))

    def boot(self, script: str) -> str:
        """Boot systemd in new namespaces, run a script as a service, and power off.

        Returns the output of the script. An ext4 filesystem is mounted on /srv/data.
        """
        units = self.root / "etc/systemd/system"
        (units / "boot-test.target").write_text(TARGET)
        (units / "boot-test.service").write_text(SERVICE.format(script=script))
        image = self.root / "var/image"
        succeed("truncate", "-s", "64M", image)
        succeed("mke2fs", "-q", "-F", "-t", "ext4", image)
        namespaces = "--mount --pid --uts --ipc --cgroup --fork --kill-child".split()
        run("unshare", *namespaces, "sh", "-c", BOOT, "boot", self.root, seconds=120)
        output = self.root / "var/boot-test.out"
        assert output.exists(), "systemd did not start the service"
        return output.read_text()


def differing(before: Files, after: Files) -> list[str]:
    """Return the paths that differ, except those that `Chroot.boot` and systemd write."""
    names = {*before, *after}
    return sorted(
        name
        for name in names
        if before.get(name) != after.get(name) and not name.startswith(OF_BOOTING)
    )


def _content(path: Path) -> tuple[int, bytes]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return status.st_mode, os.fsencode(path.readlink())
    return status.st_mode, path.read_bytes() if stat.S_ISREG(status.st_mode) else b""


@contextmanager
def chroot(folder: Path, *layers: Path) -> Iterator[Chroot]:
    """Yield a system made of some layers, the upper ones first, and of the base.

    It has /proc, /sys and /dev of this machine. Its changes are in `folder`/upper: a new layer.
    """
    if not BASE or os.geteuid() != 0:
        unavailable("EXT4AUDIT_CHROOT: the folder that .ci/packages/chroot wrote; as root")
    root, upper, work = (folder / name for name in ("root", "upper", "work"))
    for each in (root, upper, work):
        each.mkdir(parents=True)
    lower = ":".join(map(str, [*layers, BASE]))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    succeed("mount", "-t", "overlay", "-o", options, "overlay", root)
    try:
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        for name in SHARED:
            succeed("mount", "--rbind", f"/{name}", root / name)
        yield Chroot(root)
    finally:
        for name in (*SHARED, "."):
            run("umount", "-R", "-l", root / name)
