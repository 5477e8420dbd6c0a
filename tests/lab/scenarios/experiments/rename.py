"""Time that a rename over an existing file waits for the source's dirty data."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ext4audit.evidence import Known, need
from ext4audit.rules.performance import read_drains, stall_seconds
from lab.support.devices import disk, mounted
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import judge_host, scanned_host

MIB = 1 << 20
BLOCK_BYTES = 4096
DIRTY_MIB = 120
THROTTLE_MEGABYTES_PER_SECOND = 31
"""The throttle of the disk `slow`: 30 MiB/s."""
NOTHING_IS_WRITTEN_EARLY = {
    "dirty_ratio": "80",
    "dirty_background_ratio": "70",
    "dirty_expire_centisecs": "360000",
}


@scenario()
def rename_stall() -> JsonObject:
    """Time the rename by default, without auto_da_alloc, and without writeback throttling."""
    device = disk("slow")
    throttling = Path(f"/sys/block/{Path(device).name}/queue/wbt_lat_usec")
    with _written(_sysctls()):
        measured = {
            "default": _measure(device),
            "noauto_da_alloc": _measure(device, "noauto_da_alloc"),
        }
        with _written({throttling: "0"}):
            measured["wbt off"] = _measure(device)
    return measured


def _measure(device: str, *options: str) -> JsonObject:
    with mounted(
        device, *options, mkfs=["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]
    ) as place:
        host = scanned_host(place)
        queues = [
            need(drain)._replace(megabytes_per_second=THROTTLE_MEGABYTES_PER_SECOND)
            for drain in read_drains(need(host.filesystems[0].stack), Known(None, ""))
        ]
        verdict = judge_host(host, "PRF002")
        seconds, dirty_bytes = _rename(place, device)
        return {
            "seconds": round(seconds, 3),
            "dirty_bytes": dirty_bytes,
            "estimate_seconds": round(stall_seconds(dirty_bytes, queues), 3),
            "queue_bytes": [queue.holds_bytes(throttled=queue.throttled) for queue in queues],
            "wbt_lat_usec": [queue.wbt_latency_usec for queue in queues],
            "outcome": verdict.outcome.value,
            "severities": [finding.severity.value for finding in verdict.findings],
        }


@contextlib.contextmanager
def _read_meanwhile(device: str) -> Iterator[None]:
    """Read small blocks of a device with O_DIRECT until the with block ends.

    Writeback throttling protects readers: it keeps the queue shallow while their reads are late.
    With writes alone it lets more and more through within half a second (block/blk-wbt.c:
    LAT_UNKNOWN_WRITES), and the same rename took 0.3 s instead of 4.
    """
    stop = threading.Event()
    size_bytes = int(Path(f"/sys/block/{Path(device).name}/size").read_text()) * 512

    def read() -> None:
        descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:
            for turn in itertools.count():
                if stop.is_set():
                    break
                os.preadv(descriptor, [buffer], turn * MIB % size_bytes)
        os.close(descriptor)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()


def _rename(place: Path, device: str) -> tuple[float, int]:
    """Rename a file of dirty pages over another while the disk is being read.

    Return the duration in seconds and the dirty bytes.
    """
    old, new = place / "old", place / "new"
    old.write_bytes(b"old")
    os.sync()
    before = _dirty_bytes()
    with new.open("wb", buffering=0) as file:
        for _ in range(DIRTY_MIB):
            file.write(b"x" * MIB)
    dirty_bytes = _dirty_bytes() - before
    with _read_meanwhile(device):
        started = time.monotonic()
        new.rename(old)
        seconds = time.monotonic() - started
    old.unlink()  # the unmount need not write what is still dirty
    return seconds, dirty_bytes


def _dirty_bytes() -> int:
    fields = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(each[1]) * 1024 for each in fields if each[0] in {"Dirty:", "Writeback:"})


def _sysctls() -> dict[Path, str]:
    return {Path("/proc/sys/vm") / name: value for name, value in NOTHING_IS_WRITTEN_EARLY.items()}


@contextlib.contextmanager
def _written(settings: Mapping[Path, str]) -> Iterator[None]:
    """Write kernel settings, and restore the former values."""
    before = {path: path.read_text() for path in settings}
    for path, value in settings.items():
        path.write_text(value)
    try:
        yield
    finally:
        for path, value in before.items():
            path.write_text(value)
