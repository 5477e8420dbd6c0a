"""What a crash leaves of synced files on a thin volume, with and without barriers."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.scenarios.device_rules import mapped
from lab.support.devices import disk, mounted, run
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import judge_host, scanned_host

METADATA_SECTORS, DATA_SECTORS, VOLUME_SECTORS, BLOCK_SECTORS = 8192, 131072, 409600, 128
SECTOR_BYTES = 512
SYNCED = b"x" * (4 << 20)
TRIES = 5
"""The pool commits its mappings once per second in any case, so a single crash may lose nothing."""


@scenario()
def synced_files_on_a_thin_volume() -> JsonObject:
    """Sync files on a write-through disk, and read them as after a crash right then."""
    return {option: _measure(option) for option in ("barrier", "nobarrier")}


def _measure(option: str) -> JsonObject:
    lost = 0
    with ExitStack() as stack:
        parts = stack.enter_context(_parts(disk("through"), "pool"))
        run("dd", "if=/dev/zero", f"of={parts[0]}", "bs=64K", "count=1", "oflag=direct")
        pool = stack.enter_context(_pool("pool", *parts))
        run("dmsetup", "message", pool, "0", "create_thin 0")
        volume = stack.enter_context(mapped("thin", f"0 {VOLUME_SECTORS} thin {pool} 0"))
        mkfs = ["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]
        place = stack.enter_context(mounted(volume, option, "noinit_itable", mkfs=mkfs))
        verdict = judge_host(scanned_host(place), "DUR001")
        for number in range(TRIES):
            _write_synced(place / f"file{number}")
            lost += _crashed(parts, f"file{number}") != SYNCED
    return {"lost": lost, "severities": [each.severity.value for each in verdict.findings]}


def _write_synced(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(SYNCED)
        os.fsync(file)


@contextmanager
def _parts(device: str, name: str) -> Iterator[list[str]]:
    """Divide a disk into the metadata and the data of a pool."""
    with (
        mapped(f"{name}-meta", f"0 {METADATA_SECTORS} linear {device} 0") as metadata,
        mapped(f"{name}-data", f"0 {DATA_SECTORS} linear {device} {METADATA_SECTORS}") as data,
    ):
        yield [metadata, data]


@contextmanager
def _pool(name: str, metadata: str, data: str) -> Iterator[str]:
    table = f"0 {DATA_SECTORS} thin-pool {metadata} {data} {BLOCK_SECTORS} 0 1 skip_block_zeroing"
    with mapped(name, table) as pool:
        yield pool


def _crashed(parts: list[str], name: str) -> bytes:
    """Return what a file has on a copy of the disks, which is what they hold after a crash."""
    with _parts(disk("wide"), "copy") as copies:
        for source, copy in zip(parts, copies, strict=True):
            _copy(source, copy)
        with _pool("copy", *copies) as pool:
            table = f"0 {VOLUME_SECTORS} thin {pool} 0"
            with mapped("crashed", table) as volume:
                return _content(volume, name)


def _content(volume: str, name: str) -> bytes:
    """Return the content of a file after the replay of the journal, b"" if it cannot be read."""
    try:
        with mounted(volume, at="/mnt/crashed", mkfs=None) as place:
            return (place / name).read_bytes()
    except (AssertionError, OSError):
        return b""


def _copy(source: str, copy: str) -> None:
    """Copy a device past the page cache, which has no part of what dm writes."""
    buffer = mmap.mmap(-1, 1 << 20)
    reader = os.open(source, os.O_RDONLY | os.O_DIRECT)
    writer = os.open(copy, os.O_WRONLY | os.O_DIRECT)
    try:
        while size := os.readv(reader, [buffer]):
            os.writev(writer, [memoryview(buffer)[:size]])
    finally:
        os.close(reader)
        os.close(writer)
