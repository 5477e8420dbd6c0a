"""dioread_nolock without delayed allocation on a kernel that guards against it."""

from __future__ import annotations

import os
from pathlib import Path

from lab.support.devices import disk, mounted, run
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import judge_host, scanned_host

MIB = 1 << 20
FILE_MIB = 32


@scenario(every_era=True)
def dioread_without_delalloc() -> JsonObject:
    """Write a file through the page cache, and count its extents."""
    device = disk("wide")
    mkfs = ["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]
    with mounted(device, "dioread_nolock", "nodelalloc", mkfs=mkfs) as place:
        shown = Path(f"/proc/fs/ext4/{Path(device).name}/options").read_text().split()
        verdict = judge_host(scanned_host(place), "PRF001")
        path = place / "file"
        with path.open("wb", buffering=0) as file:
            for _ in range(FILE_MIB):
                file.write(b"x" * MIB)
        # Count before writeback, which merges the extents that the defect has split.
        before = _extents(path)
        os.sync()
        return {
            "release": os.uname().release,
            "shown": [word for word in shown if "delalloc" in word or "dioread" in word],
            "pages": FILE_MIB * MIB // 4096,
            "extents_before_writeback": before,
            "extents": _extents(path),
            "outcome": verdict.outcome.value,
        }


def _extents(path: Path) -> int:
    """Return the extents that filefrag counts: "/mnt/lab/file: 4 extents found"."""
    return int(run("filefrag", path).rsplit(":", 1)[1].split()[0])
