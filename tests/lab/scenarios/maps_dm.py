"""Patterns through LVM, LUKS and bare device mapper, alone and on md."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from lab.scenarios.stacks_md import raid_disks
from lab.support.devices import disk, md
from lab.support.patterns import follow
from lab.support.scenario import JsonObject, scenario
from lab.support.stacks import linear, logical_volume, luks, partitions

EXTEND = ("lvextend", "-y", "-L", "+64M", "lab/data")
SMALL = ("-L", "256M")
VOLUMES: dict[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = {
    "striped over 3": ((*SMALL, "-i", "3", "-I", "64k"), ()),
    "raid0 over 3": ((*SMALL, "--type", "raid0", "-i", "3", "-I", "64k"), ()),
    "raid1": ((*SMALL, "--type", "raid1", "-m", "1", "--nosync"), ()),
    "raid10": ((*SMALL, "--type", "raid10", "-i", "2", "-m", "1", "--nosync"), ()),
    "raid4": ((*SMALL, "--type", "raid4", "-i", "3", "--nosync"), ()),
    "raid5": ((*SMALL, "--type", "raid5", "-i", "3", "--nosync"), ()),
    "raid6": ((*SMALL, "--type", "raid6", "-i", "3"), ()),
}


@scenario()
def maps_lvm() -> JsonObject:
    """Follow patterns through each kind of volume; metadata of RAID volumes is not data."""
    found = {}
    for name, (options, more) in VOLUMES.items():
        with logical_volume(raid_disks(4, 2, 0, 3, 1), *options, more=more) as device:
            found[name] = follow(device)
    return found


@scenario()
def maps_lvm_segments() -> JsonObject:
    """Follow patterns through volumes of several segments."""
    found = {}
    first, second, third = raid_disks(0, 1, 2)
    edge = 256 << 20
    another = ("lvcreate", "-y", "-W", "n", "-n", "between", "-L", "64M", "lab", first)
    with logical_volume([first, second], *SMALL, more=[another, EXTEND]) as device:
        found["linear, one disk"] = follow(device, edge)
    with logical_volume([first, second], *SMALL, more=[(*EXTEND, second)]) as device:
        found["linear, two disks"] = follow(device, edge)
    stripes = ("-i", "2", "-I", "64k")
    elsewhere = (*EXTEND, *stripes, second, third)
    with logical_volume([first, second, third], *SMALL, *stripes, more=[elsewhere]) as device:
        found["striped, two pairs"] = follow(device, edge)
    return found


@scenario()
def maps_dm_on_md() -> JsonObject:
    """Follow patterns through LUKS, LVM and partitions on md, and through all of them together."""
    found = {}
    with md("0", raid_disks(2, 0, 1), "--chunk=64") as array:
        for version in ("luks1", "luks2"):
            with luks(array, version=version) as device:
                found[version] = follow(device, encrypted=True)
        with (
            partitions(array, 2048 + 128, sectors=4 << 20) as parts,
            logical_volume(parts, *SMALL) as volume,
            luks(volume) as device,
        ):
            found["luks on lvm on a partition"] = follow(device, encrypted=True)
    with (
        md("0", raid_disks(0, 1), "--chunk=64", name="md1") as first,
        md("0", raid_disks(2, 3), "--chunk=64", name="md2") as second,
        logical_volume([first, second], *SMALL, "-i", "2", "-I", "128k") as device,
    ):
        found["lvm stripes over raid0"] = follow(device)
    with (
        md("5", raid_disks(0, 1, 2), "--chunk=64", "--bitmap=none", name="md1") as first,
        md("5", raid_disks(3, 4, 5), "--chunk=64", "--bitmap=none", name="md2") as second,
        md("0", [first, second], "--chunk=64") as device,
    ):
        found["raid0 over raid5"] = follow(device)
    return found


@scenario()
def maps_md_on_dm() -> JsonObject:
    """Follow patterns through arrays whose members are encrypted disks or parts of disks."""
    found = {}
    first, second = raid_disks(0, 1)
    with contextlib.ExitStack() as made:
        members = [made.enter_context(luks(each, name=each[5:])) for each in (first, second)]
        device = made.enter_context(md("0", members, "--chunk=64"))
        found["raid0 on luks"] = follow(device, encrypted=True)
    with linear(first, 8192, 2 << 20) as window, md("0", [window, second], "--chunk=64") as device:
        found["raid0 on a window"] = follow(device)
    return found


@scenario()
def maps_snapshot() -> JsonObject:
    """Follow patterns through a volume that has a snapshot, and request the snapshot's map.

    Overwritten blocks are copied first; the volume's own blocks do not move.
    """
    snapshot = ("lvcreate", "-y", "-s", "-L", "64M", "-n", "old", "lab/data")
    with logical_volume([disk("wide")], *SMALL, more=[snapshot]) as device:
        return {"origin": follow(device), "snapshot": follow("/dev/mapper/lab-old")}
