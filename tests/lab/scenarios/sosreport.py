"""The real `sos` on a stack of which it collects only part: LVM on RAID0."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.scenarios.stacks_md import CHUNK, raid_disks
from lab.support.devices import md, mounted, run
from lab.support.scenario import JsonObject, scenario
from lab.support.stack_audit import host_called_lab
from lab.support.stacks import logical_volume

PLACE = "/data"
ARCHIVE = Path("/lab-results/sosreport.tar.gz")
PLUGINS = "filesys,block,kernel,host,memory,release,date,md,lvm2,devicemapper"
# Without a udevd a tool may wait for one: sos allows each command five minutes by default.
BOUNDS = ("--plugin-timeout", "90", "--threads", "2")


@scenario()
def sosreport() -> JsonObject:
    """Report LVM on RAID0 with barriers off in the superblock, and dump the descriptors too."""
    with (
        md("0", raid_disks(2, 0, 3, 1), CHUNK) as array,
        logical_volume([array], "-L", "34G") as device,
    ):
        lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        run("mkfs.ext4", "-q", "-F", "-E", lazy, device)
        run("tune2fs", "-o", "nobarrier", device)
        entry = f"{device} {PLACE} ext4 defaults,nodelalloc 0 2\n"
        with host_called_lab(entry), mounted(device, "nodelalloc", at=PLACE, mkfs=None):
            return {"printed": _report()}


def _report() -> str:
    """Run sos, export its archive and return its output."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        printed = run(
            *("sos", "report", "--batch", "-o", PLUGINS, "-k", "filesys.dumpe2fs=on"),
            *(*BOUNDS, "--tmp-dir", directory, "-z", "gzip"),
        )
        (archive,) = Path(directory).glob("sosreport-*.tar.gz")
        shutil.copy(archive, ARCHIVE)
    return printed
