"""Checks of the lab itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from lab.support.devices import disk, mounted, run
from lab.support.scenario import JsonObject, scenario


@scenario(every_era=True)
def the_machine() -> JsonObject:
    """Return the kernel's release and the write cache of each kind of disk."""
    caches = {
        serial: Path(f"/sys/block/{Path(disk(serial)).name}/queue/write_cache").read_text().strip()
        for serial in ("wide", "through", "nvme")
    }
    return {"release": os.uname().release, "caches": caches, "uid": os.geteuid()}


@scenario(every_era=True)
def the_program() -> JsonObject:
    """Run the program as a user does: `ext4audit scan -f json` on a filesystem with a secret."""
    device = disk("wide")
    with mounted(device, mkfs=["-E", "lazy_itable_init=1,nodiscard"]) as place:
        run("tune2fs", "-o", "nobarrier", device)
        run("umount", place)
        run("mount", device, place)
        program = (sys.executable, "-m", "ext4audit", "scan", "-f", "json", str(place))
        report: JsonObject = json.loads(run(*program, check=False))
    return report
