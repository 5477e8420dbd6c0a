"""`ext4audit probe` on bad and good disks, options and layouts: one command per experiment."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from lab.support.devices import disk, md, mounted, run
from lab.support.scenario import JsonObject, scenario
from support.program import run as run_program

LAZY = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
PAGE = b"x" * 4096
PATIENCE_SECONDS = 180


@scenario(every_era=True)
def probe_options() -> JsonObject:
    """Probe fsync, rename and extents with bad and good options.

    Inode tables are not initialized meanwhile: the kernel flushes once for the first of them,
    with or without barriers (fs/ext4/super.c: ext4_run_li_request).
    """
    wide, through = disk("wide"), disk("through")
    dioread = ("dioread_nolock", "nodelalloc")
    return {
        "release": os.uname().release,
        "barrier": _probe(wide, "fsync", "barrier", "noinit_itable"),
        "nobarrier": _probe(wide, "fsync", "nobarrier", "noinit_itable"),
        "write through": _probe(through, "fsync", "barrier", "noinit_itable"),
        "noauto_da_alloc": _probe(wide, "rename", "noauto_da_alloc"),
        "nodelalloc": _probe(wide, "rename", "nodelalloc"),
        "extents": _probe(wide, "extents", "delalloc"),
        "extents, nodelalloc": _probe(wide, "extents", *dioread),
    }


@scenario()
def probe_idle_disks() -> JsonObject:
    """Probe fsync where a disk gets no writes, or is reached by several paths."""
    one, two, three = (disk(f"raid{n:02}") for n in range(3))
    found = {}
    with md("1", [one, two]) as array:
        run("mdadm", array, "--add-spare", three)
        found["spare"] = _probe(array, "fsync", "noinit_itable")
    run("mdadm", "--zero-superblock", three)
    for mode in ("mq", "bio"):
        for option in ("barrier", "nobarrier"):
            with _multipath(mode, one, two) as device:
                found[f"{mode}, {option}"] = _probe(device, "fsync", option, "noinit_itable")
    return found


@contextlib.contextmanager
def _multipath(queue_mode: str, *paths: str) -> Iterator[str]:
    """Create a map that uses the first path as long as it works."""
    sectors = run("blockdev", "--getsz", paths[0]).strip()
    groups = " ".join(f"round-robin 0 1 1 {path} 1000" for path in paths)
    table = f"0 {sectors} multipath 2 queue_mode {queue_mode} 0 {len(paths)} 1 {groups}"
    run("dmsetup", "create", "lab-paths", "--noudevsync", "-u", "mpath-lab", "--table", table)
    run("dmsetup", "mknodes")
    try:
        yield "/dev/mapper/lab-paths"
    finally:
        run("dmsetup", "remove", "--noudevsync", "lab-paths")


@scenario()
def probe_rename() -> JsonObject:
    """Probe the rename on a throttled and an unthrottled disk."""
    return {
        "slow": _probe(disk("slow"), "rename", "auto_da_alloc"),
        "slow, noauto_da_alloc": _probe(disk("slow"), "rename", "noauto_da_alloc"),
    }


@scenario()
def probe_members() -> JsonObject:
    """Probe a RAID0 of twelve disks with the defaults of mke2fs and with evenly spread bitmaps."""
    members = [disk(f"raid{n:02}") for n in range(12)]
    with md("0", members, "--chunk=512", "--data-offset=64M") as array:
        return {
            "default": _probe(array, "members", "noinit_itable", mkfs=LAZY),
            "-g 32744": _probe(array, "members", "noinit_itable", mkfs=(*LAZY, "-g", "32744")),
        }


@scenario()
def probe_observe() -> JsonObject:
    """Observe a disk during writes with fsync, with and without barriers."""
    found = {}
    for option in ("barrier", "nobarrier"):
        with mounted(disk("wide"), option, mkfs=LAZY) as place, _fsyncing(place):
            found[option] = _run(place, "--observe", "5")
    return found


def _probe(device: str, only: str, *options: str, mkfs: tuple[str, ...] = LAZY) -> JsonObject:
    with mounted(device, *options, mkfs=mkfs) as place:
        before = sorted(place.iterdir())
        found = _run(place, "--only", only, "--time", "60")
        assert sorted(place.iterdir()) == before
        return found


def _run(place: Path, *arguments: str) -> JsonObject:
    """Return the exit code and the results by probe; the guest shares the host's files."""
    words = ("probe", str(place), "-f", "json", *arguments)
    done = run_program(*words, seconds=PATIENCE_SECONDS)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    return {
        "exit_code": done.returncode,
        "results": {result["probe"]: result for result in report["results"]},
    }


@contextlib.contextmanager
def _fsyncing(place: Path) -> Iterator[None]:
    """Append and fsync in the background."""
    stop = threading.Event()

    def write() -> None:
        with (place / "log").open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(PAGE)
                os.fsync(file)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
