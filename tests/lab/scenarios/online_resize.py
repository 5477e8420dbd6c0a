"""Block groups read while resize2fs grows the mounted filesystem that they are of."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from ext4audit.assemble.group_table import read_group_table
from ext4audit.assemble.superblock import read_image_superblock
from ext4audit.evidence import Evidence, Known, need
from ext4audit.facts.superblock import GroupTable
from ext4audit.parsers.group_table import parse_group_table
from ext4audit.parsers.sysfs import parse_device_number
from ext4audit.sources.live import LiveSource
from lab.support.devices import disk, mounted, run
from lab.support.scenario import JsonObject, scenario

FIRST_MIB, LAST_MIB, STEP_MIB = 64, 832, 48
PLACE = "/mnt/growing"


@scenario()
def online_resize() -> JsonObject:
    """Grow from 8 to 104 groups in 16 steps, with one descriptor table and with meta_bg."""
    return {"one table": _grow(), "meta_bg": _grow("-O", "meta_bg,^resize_inode")}


def _grow(*options: str) -> JsonObject:
    device = disk("wide")
    run("mkfs.ext4", "-q", "-F", "-b", "1024", *options, device, f"{FIRST_MIB}M")
    readings: list[tuple[int | None, Evidence[GroupTable]]] = []
    with mounted(device, at=PLACE, mkfs=None) as place:
        with _busy(place), _growing(device) as growth:
            while growth.is_alive():
                readings.append(_read(device))
        run("sync")
        last = parse_group_table(run("dumpe2fs", "-g", device))
    fsck = run("e2fsck", "-fn", device)
    return {
        "groups": last.groups,
        "readings": [_told(*one, last) for one in readings],
        "fsck": fsck,
    }


def _read(device: str) -> tuple[int | None, Evidence[GroupTable]]:
    """Read the superblock, then the groups that it has; return how many those are."""
    source = LiveSource()
    superblock = read_image_superblock(source, device)
    number = parse_device_number(Path("/sys/block", Path(device).name, "dev").read_text())
    return need(superblock).groups, read_group_table(source, device, number, superblock)


def _told(groups: int | None, table: Evidence[GroupTable], last: GroupTable) -> JsonObject:
    """Return what is right of a reading: no group of a mounted filesystem moves as it grows."""
    if not isinstance(table, Known):
        return {"groups": groups, "hole": table.detail}
    value = table.value
    return {
        "groups": groups,
        "origin": table.origin,
        "is_beginning_of_last": value.groups == groups and value == last.first(value.groups),
    }


@contextlib.contextmanager
def _growing(device: str) -> Iterator[threading.Thread]:
    """Grow step by step meanwhile; the thread ends with the last step."""
    failures: list[AssertionError] = []

    def work() -> None:
        try:
            for mib in range(FIRST_MIB + STEP_MIB, LAST_MIB + 1, STEP_MIB):
                run("resize2fs", device, f"{mib}M")
        except AssertionError as error:
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield worker
    finally:
        worker.join()
    assert not failures, failures


@contextlib.contextmanager
def _busy(directory: Path) -> Iterator[None]:
    """Create and replace small files meanwhile, so that descriptors are written all the time."""
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
