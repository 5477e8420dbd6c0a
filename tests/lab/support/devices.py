"""Devices of the guest: disks found by serial, and the stacks that scenarios build on them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path


def run(*argv: str | Path, check: bool = True, stdin: str = "") -> str:
    """Run a command and return its output; by default it must succeed."""
    done = subprocess.run(
        [str(arg) for arg in argv], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or not check, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def disk(serial: str) -> str:
    """Return the device node of the disk with a serial."""
    for name, found in serials().items():
        if found == serial:
            return f"/dev/{name}"
    raise LookupError(f"no disk has the serial {serial}")


def serials() -> dict[str, str]:
    """Return the serials of the disks, by kernel name."""
    files = [*Path("/sys/block").glob("*/serial"), *Path("/sys/block").glob("*/device/serial")]
    return {file.relative_to("/sys/block").parts[0]: file.read_text().strip() for file in files}


def wipe_idle_disks() -> None:
    """Wipe what earlier scenarios left on disks that are not in use.

    An audit of the whole guest finds idle filesystems, and a fixture must not depend on which
    scenarios ran before. A disk in use refuses (EBUSY). Nothing updates udev's database in the
    guest, so stale entries about a disk would be taken for its contents.
    """
    shutil.rmtree("/run/udev", ignore_errors=True)
    for name in serials():
        run("wipefs", "--all", "--quiet", f"/dev/{name}", check=False)


@contextlib.contextmanager
def md(level: str, members: Sequence[str], *options: str, name: str = "md127") -> Iterator[str]:
    """Create an md array, and stop it again; a member may be "missing" (mdadm(8))."""
    device = f"/dev/{name}"
    words = ["--create", device, "--run", "--assume-clean", f"--level={level}", "--homehost=lab"]
    if level == "0":
        words.remove("--assume-clean")
    words += [f"--raid-devices={len(members)}", *options, *members]
    run("mdadm", *words, stdin="y\n")
    try:
        yield device
    finally:
        run("mdadm", "--stop", device)
        run("mdadm", "--zero-superblock", *(each for each in members if each != "missing"))


@contextlib.contextmanager
def mounted(
    device: str, *options: str, at: str = "/mnt/lab", mkfs: Sequence[str] | None = ()
) -> Iterator[Path]:
    """Make an ext4 filesystem (unless `mkfs` is None), mount it, and unmount it again."""
    place = Path(at)
    place.mkdir(parents=True, exist_ok=True)
    if mkfs is not None:
        run("mkfs.ext4", "-q", "-F", *mkfs, device)
    run("mount", *(["-o", ",".join(options)] if options else []), device, place)
    try:
        yield place
    finally:
        run("umount", place)


def sync_filesystem(place: Path) -> None:
    """Sync a filesystem as `sync -f` does, which takes 0.1 s to start here."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            raise OSError(ctypes.get_errno(), "syncfs", str(place))
    finally:
        os.close(descriptor)


def wait_for(path: str, seconds: float = 10.0) -> None:
    """Wait for a device node that the kernel creates asynchronously."""
    deadline = time.monotonic() + seconds
    while not Path(path).exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


def writes(device: str) -> int:
    """Return the write requests that a disk has completed (Documentation/block/stat.rst)."""
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[4])


def flushes(device: str) -> int:
    """Return the flush requests that a disk has completed (since Linux 5.5)."""
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[15])
