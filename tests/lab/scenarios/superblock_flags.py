"""Effect of remounts on superblock flags: one without any of the flags, and the product's."""

from __future__ import annotations

from pathlib import Path

from ext4audit.parsers.devices_and_mounts import parse_mount_table
from ext4audit.remedies.remount import remount_command
from lab.support.devices import disk, run
from lab.support.mounting import unmount
from lab.support.scenario import JsonObject, scenario

PLACE = Path("/mnt/flags")
FLAGS = ("i_version", "iversion", "lazytime", "mand", "sync", "dirsync")


@scenario(every_era=True)
def superblock_flags() -> JsonObject:
    """Mount with each flag; return the mount table then, and after each remount."""
    device = disk("wide")
    PLACE.mkdir(exist_ok=True)
    run("mkfs.ext4", "-q", "-F", device, "160M")
    return {flag: _remounted(device, flag) for flag in FLAGS}


def _remounted(device: str, flag: str) -> JsonObject:
    run("mount", "-o", flag, device, str(PLACE))
    try:
        mounted = _table()
        (mount,) = parse_mount_table(mounted).mounts
        run("sh", "-c", remount_command(mount, ["nobarrier"]).text)
        ours = _table()
        run("mount", "-o", "remount,rw", device, str(PLACE))
        return {"mounted": mounted, "ours": ours, "plain": _table()}
    finally:
        unmount(PLACE)


def _table() -> str:
    lines = Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
    return next(line for line in lines if f" {PLACE} " in line)
