"""How many cache flushes reach a disk during fsync-heavy work, with and without barriers."""

from __future__ import annotations

import os
from pathlib import Path

from lab.support.devices import disk, flushes, mounted
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import judge_host, scanned_host

FSYNCS = 100


@scenario()
def flushes_by_barrier() -> JsonObject:
    """Count the flushes of appends with fsync on a write-back and a write-through disk."""
    return {
        serial: {option: _measure(disk(serial), option) for option in ("barrier", "nobarrier")}
        for serial in ("wide", "through")
    }


def _measure(device: str, option: str) -> JsonObject:
    mkfs = ["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]
    with mounted(device, option, "noinit_itable", "noatime", mkfs=mkfs) as place:
        verdict = judge_host(scanned_host(place), "DUR001")
        counted = _append(device, place / "log")
    return {
        "fsyncs": FSYNCS,
        "flushes": counted,
        "outcome": verdict.outcome.value,
        "severities": [finding.severity.value for finding in verdict.findings],
        "confidences": [finding.confidence.value for finding in verdict.findings],
    }


def _append(device: str, path: Path) -> int:
    """Append and fsync; return the flushes that the disk completed during that time."""
    os.sync()
    before = flushes(device)
    with path.open("ab", buffering=0) as file:
        for _ in range(FSYNCS):
            file.write(b"x" * 512)
            os.fsync(file)
    return flushes(device) - before
