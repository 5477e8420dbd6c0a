"""Reading the block groups of a mounted filesystem while resize2fs grows it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ext4audit.assemble.layout import read_group_table
from ext4audit.assemble.superblock import read_raw_superblock
from ext4audit.evidence import Evidence, Known, need
from ext4audit.facts.superblock import GroupTable
from ext4audit.parsers import parse_device_number
from ext4audit.parsers.dumpe2fs import parse_group_table
from ext4audit.sources.live import LiveSource
from lab.support.devices import disk, mounted, run
from lab.support.scenario import JsonObject, scenario

FIRST_MIB, LAST_MIB, STEP_MIB = 64, 832, 48
MOST_SECONDS_OF_A_READING = 120
PLACE = "/mnt/growing"


@dataclass
class _Growth:
    """Progress of the resize; `read` is released after each reading."""

    worker: threading.Thread = field(default_factory=threading.Thread)
    begun: int = 0
    ended: int = 0
    read: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def wait_for_readings(self) -> None:
        """Wait until the current reading and one more have ended."""
        while self.read.acquire(blocking=False):
            pass
        for _ in range(2):
            assert self.read.acquire(timeout=MOST_SECONDS_OF_A_READING), "nothing was read"


class _Reading(NamedTuple):
    """The superblock's group count, the group table, and whether no resize step overlapped."""

    groups: int | None
    table: Evidence[GroupTable]
    is_between_steps: bool


@scenario()
def online_resize() -> JsonObject:
    """Grow from 8 to 104 groups in 16 steps, with one descriptor table and with meta_bg."""
    return {"one table": _grow(), "meta_bg": _grow("-O", "meta_bg,^resize_inode")}


def _grow(*options: str) -> JsonObject:
    device = disk("wide")
    run("mkfs.ext4", "-q", "-F", "-b", "1024", *options, device, f"{FIRST_MIB}M")
    readings: list[_Reading] = []
    with mounted(device, at=PLACE, mkfs=None) as place:
        with _busy(place), _growing(device) as growth:
            while growth.worker.is_alive():
                readings.append(_read(device, growth))
        run("sync")
        last = parse_group_table(run("dumpe2fs", "-g", device))
    fsck = run("e2fsck", "-fn", device)
    return {
        "groups": last.groups,
        "readings": [_described(reading, last) for reading in readings],
        "fsck": fsck,
    }


def _read(device: str, growth: _Growth) -> _Reading:
    """Read the superblock, then as many groups as it counts."""
    source = LiveSource()
    steps_before = growth.begun, growth.ended
    superblock = read_raw_superblock(source, device)
    number = parse_device_number(Path("/sys/block", Path(device).name, "dev").read_text())
    table = read_group_table(source, device, number, superblock)
    steps = growth.begun, growth.ended
    growth.read.release()
    is_between_steps = steps_before == steps and growth.begun == growth.ended
    return _Reading(need(superblock).groups, table, is_between_steps)


def _described(reading: _Reading, last: GroupTable) -> JsonObject:
    """Compare a reading with the final table: groups of a mounted filesystem never move."""
    read: JsonObject = {"groups": reading.groups, "is_between_steps": reading.is_between_steps}
    if not isinstance(reading.table, Known):
        return {**read, "gap": reading.table.detail}
    value = reading.table.value
    is_beginning = value.groups == reading.groups and value == last.first(value.groups)
    return {**read, "origin": reading.table.origin, "is_beginning_of_last": is_beginning}


@contextlib.contextmanager
def _growing(device: str) -> Iterator[_Growth]:
    """Run resize2fs step by step in a thread; it ends with the last step.

    Between two steps it waits until two readings have ended: the second began after the step,
    so a reader slower than a step also sees a filesystem that is not growing.
    """
    failures: list[AssertionError] = []
    growth = _Growth()

    def work() -> None:
        try:
            for mib in range(FIRST_MIB + STEP_MIB, LAST_MIB + 1, STEP_MIB):
                growth.begun += 1
                run("resize2fs", device, f"{mib}M")
                growth.ended += 1
                growth.wait_for_readings()
        except AssertionError as error:
            failures.append(error)

    growth.worker = threading.Thread(target=work)
    growth.worker.start()
    try:
        yield growth
    finally:
        growth.worker.join()
    assert not failures, failures


@contextlib.contextmanager
def _busy(directory: Path) -> Iterator[None]:
    """Create and replace small files in the background, so that descriptors change all the time."""
    stop = threading.Event()

    def work() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            place = directory / f"d{turn % 50}"
            place.mkdir(exist_ok=True)
            (place / f"{turn % 500}").write_bytes(b"x" * 5000)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()
