"""That the lab itself works."""

from __future__ import annotations

import os
from pathlib import Path

from lab.devices import disk
from lab.scenario import JsonObject, scenario


@scenario(every_era=True)
def the_machine() -> JsonObject:
    """Tell the kernel's release and the write cache of each kind of disk."""
    caches = {
        serial: Path(f"/sys/block/{Path(disk(serial)).name}/queue/write_cache").read_text().strip()
        for serial in ("wide", "through", "nvme")
    }
    return {"release": os.uname().release, "caches": caches, "uid": os.geteuid()}
