"""Writes to each RAID0 member while small files are created and replaced.

With the defaults of mke2fs and with -g 32744, on 12 disks of 100 GiB.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from pathlib import Path

from ext4audit.evidence import Known
from lab.support.devices import disk, md, mounted, run, sync_filesystem, writes
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import judge_host, scanned_host

DIRECTORIES = 600
FILES_PER_DIRECTORY = 40
DIRECTORIES_PER_SYNC = 60
CHURN_DIRECTORIES = 400
CHURN_FILES = 5
CHURN_WRITES = 2000
CHURN_PER_SYNC = 10
LAZY = ("-E", "lazy_itable_init=1,nodiscard")


@scenario()
def hotspot() -> JsonObject:
    """Create 24,000 files on 12 disks of 100 GiB, once for each group size."""
    members = [disk(f"raid{n:02}") for n in range(12)]
    with md("0", members, "--chunk=512", "--data-offset=64M") as array:
        return {
            "default": _measure(array, members, _create),
            "-g 32744": _measure(array, members, _create, "-g", "32744"),
        }


@scenario()
def hotspot_churn() -> JsonObject:
    """Replace small files all over 12 disks of 100 GiB, once for each layout."""
    members = [disk(f"raid{n:02}") for n in range(12)]
    spread = ("-g", "32744")
    meta_bg = (*spread, "-O", "meta_bg,^resize_inode")
    with md("0", members, "--chunk=512", "--data-offset=64M") as array:
        return {
            "default": _measure(array, members, _churn),
            "-g 32744": _measure(array, members, _churn, *spread),
            # Small files take their blocks from one pool (mb_stream_req in admin-guide/ext4.rst):
            # each sync writes its group's bitmap and descriptor. The pool's place is random, and
            # differs in the next round.
            "-g 32744, meta_bg": _measure(array, members, _churn, *meta_bg, rounds=2),
        }


def _measure(
    array: str, members: list[str], work: Callable[[Path], None], *mkfs: str, rounds: int = 1
) -> JsonObject:
    """Count the writes of each member, as the mean of rounds on new filesystems."""
    counted = [0] * len(members)
    for _ in range(rounds):
        # Lazy initialisation of inode tables writes to all members equally, and hides the effect.
        with mounted(array, "noinit_itable", "noatime", mkfs=[*LAZY, *mkfs]) as place:
            host = scanned_host(place)
            verdict = judge_host(host, "LAY001")
            before = [writes(member) for member in members]
            work(place)
        # Count after the unmount, which writes what the journal still held back.
        pairs = zip(counted, members, before, strict=True)
        counted = [count + writes(member) - old for count, member, old in pairs]
    (fs,) = host.filesystems
    assert isinstance(fs.layout, Known), fs.layout
    return {
        "members": [Path(member).name for member in members],
        "slots": [member.name for member in fs.layout.value.members],
        "bitmaps": [member.bitmaps for member in fs.layout.value.members],
        "touches": [member.touches for member in fs.layout.value.members],
        "churn": list(fs.layout.value.churn.loads),
        "writes": [count // rounds for count in counted],
        "outcome": verdict.outcome.value,
    }


def _create(place: Path) -> None:
    """Create files in many directories: one directory would stay in three block groups."""
    for number in range(DIRECTORIES):
        directory = f"{place}/{number}"
        os.mkdir(directory)  # noqa: PTH102 - pathlib costs more than the call, emulated
        for name in range(FILES_PER_DIRECTORY):
            os.mknod(f"{directory}/{name}", stat.S_IFREG | 0o644)
        if number % DIRECTORIES_PER_SYNC == DIRECTORIES_PER_SYNC - 1:
            sync_filesystem(place)


def _churn(place: Path) -> None:
    """Create one-block files in many directories, then replace random ones.

    The journal commits after a fixed count, not after a time: how many commits a slow guest
    makes between two syncs would say nothing about the layout.
    """
    run("mount", "-o", "remount,commit=300", place)
    for number in range(CHURN_DIRECTORIES):
        (place / f"{number}").mkdir()
        for name in range(CHURN_FILES):
            (place / f"{number}" / f"{name}").write_bytes(b"x" * 4096)
    sync_filesystem(place)
    chance = random.Random(1)  # noqa: S311 - a choice of files, the same in every run
    for write in range(CHURN_WRITES):
        file = place / f"{chance.randrange(CHURN_DIRECTORIES)}" / f"{chance.randrange(CHURN_FILES)}"
        file.unlink()
        file.write_bytes(b"y" * 4096)
        if write % CHURN_PER_SYNC == CHURN_PER_SYNC - 1:
            sync_filesystem(place)
