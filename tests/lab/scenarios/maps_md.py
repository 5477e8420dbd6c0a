"""Patterns through md arrays of every level and layout, and through arrays on arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from lab.scenarios.stacks_md import raid_disks
from lab.support.devices import disk, md, run
from lab.support.patterns import follow
from lab.support.scenario import JsonObject, scenario
from lab.support.stacks import partitions

MIB_SECTORS = 2048
UNEQUAL_KIB = (65600, 163840, 98304)
"""Sizes of partitions, including the data offset of 1 MiB. Three times 1,009 chunks of 64 KiB
are an odd number: only then do the two chunk orders differ in the zone of two members."""
ZONES_KIB = (3 * 64576, 3 * 64576 + 2 * 32704)
PARTS_KIB = (64576, 64576 + 162816)
ARRAYS = {
    "raid0 of 4": ("0", 4, ("--chunk=512",)),
    "raid0 of 3, 64K": ("0", 3, ("--chunk=64",)),
    "raid0 of 3, 520K": ("0", 3, ("--chunk=520",)),
    "raid0 of 1": ("0", 1, ("--force",)),
    "linear of 3": ("linear", 3, ()),
    "raid1 of 3": ("1", 3, ("--bitmap=none",)),
    "raid4 of 4": ("4", 4, ()),
    **{
        f"raid10 {layout} of {members}": ("10", members, (f"--layout={layout}", "--bitmap=none"))
        for layout in ("n2", "f2", "o2", "n3", "f3", "o3")
        for members in (4, 5)
    },
    **{
        f"raid5 {layout}": ("5", 4, (f"--layout={layout}", "--bitmap=none"))
        for layout in ("la", "ra", "ls", "rs", "parity-first", "parity-last")
    },
    **{
        f"raid6 {layout}": ("6", 5, (f"--layout={layout}", "--bitmap=none"))
        for layout in (
            *("la", "ra", "ls", "rs", "parity-first", "parity-last"),
            *("ddf-zero-restart", "ddf-N-restart", "ddf-N-continue"),
            *("left-asymmetric-6", "right-asymmetric-6", "left-symmetric-6"),
            *("right-symmetric-6", "parity-first-6"),
        )
    },
}


@scenario()
def maps_md() -> JsonObject:
    """Follow patterns through each array of the table; slots are not in the order of disk names."""
    found = {}
    for name, (level, members, options) in ARRAYS.items():
        with md(level, raid_disks(4, 2, 0, 3, 1)[:members], *options) as device:
            found[name] = follow(device)
    return found


@scenario()
def maps_md_zones() -> JsonObject:
    """Follow patterns through RAID0s with members of unequal size, in both chunk orders."""
    found = {}
    with unequal_members() as members:
        for order in ("original", "alternate"):
            with md("0", members, "--chunk=64", f"--layout={order}", "--data-offset=1M") as device:
                found[order] = follow(device, *(kib << 10 for kib in ZONES_KIB))
        with md("linear", members, "--data-offset=1M") as device:
            found["linear"] = follow(device, *(kib << 10 for kib in PARTS_KIB))
    return found


@scenario()
def maps_md_far_sets() -> JsonObject:
    """Follow patterns through RAID10s whose far copies rotate within sets of members.

    mdadm cannot create them; dm-raid and the kernel's sysfs interface can.
    """
    found = {}
    for name, layout in {"f2 in sets": 0x40201, "o2 in sets": 0x50201}.items():
        for members in (4, 5):
            with made_by_sysfs(raid_disks(4, 2, 0, 3, 1)[:members], layout) as device:
                found[f"{name} of {members}"] = follow(device)
    return found


@scenario()
def maps_md_nested() -> JsonObject:
    """Follow patterns through stripes of mirrors, a mirror of stripes, and partitions of both."""
    found = {}
    chunk = "--chunk=64"
    with (
        md("1", raid_disks(0, 1), "--bitmap=none", name="md1") as first,
        md("1", raid_disks(2, 3), "--bitmap=none", name="md2") as second,
        md("0", [second, first], chunk) as device,
    ):
        found["raid0 of raid1"] = follow(device)
    with (
        md("0", raid_disks(0, 1), chunk, name="md1") as first,
        md("0", raid_disks(2, 3), chunk, name="md2") as second,
        md("1", [first, second], "--bitmap=none") as device,
    ):
        found["raid1 of raid0"] = follow(device)
    with (
        partitions(disk("raid00"), 2048, 4 << 20, sectors=2 << 20) as here,
        partitions(disk("raid01"), 4096, sectors=2 << 20) as there,
        md("0", [here[1], there[0], here[0]], chunk) as device,
        partitions(device, 3 * 1024, sectors=1 << 20) as parts,
    ):
        found["partition of raid0 of partitions"] = follow(parts[0])
    return found


@scenario()
def maps_md_unknown() -> JsonObject:
    """Request the map of an array that lacks a member, and of one that is being reshaped."""
    found = {}
    with md("5", [*raid_disks(0, 1), "missing"], "--bitmap=none", "--force") as device:
        found["missing"] = follow(device)
    with contextlib.ExitStack() as made:
        parts = [
            made.enter_context(partitions(each, 2048, sectors=256 * MIB_SECTORS))[0]
            for each in raid_disks(0, 1, 2, 3)
        ]
        device = made.enter_context(md("5", parts[:3], "--bitmap=none", "--chunk=64"))
        made.callback(run, "mdadm", "--zero-superblock", parts[3], check=False)
        found["reshape"] = _followed_in_reshape(device, parts[3])
    return found


@contextlib.contextmanager
def unequal_members() -> Iterator[list[str]]:
    """Create one partition per disk, each of a different size."""
    with contextlib.ExitStack() as made:
        nodes: list[str] = []
        for node, kib in zip(raid_disks(2, 0, 3), UNEQUAL_KIB, strict=True):
            part = partitions(node, 2048, sectors=2 * kib)
            nodes.extend(made.enter_context(part))
        yield nodes


@contextlib.contextmanager
def made_by_sysfs(members: list[str], layout: int) -> Iterator[str]:
    """Create a RAID10 without metadata through the kernel's sysfs files (admin-guide/md.rst)."""
    Path("/sys/module/md_mod/parameters/new_array").write_text("md_sets")
    directory = Path("/sys/block/md_sets/md")
    settings = {
        "metadata_version": "none",
        "level": "raid10",
        "raid_disks": str(len(members)),
        "chunk_size": "65536",
        "layout": str(layout),
        "component_size": str(1 << 20),
    }
    try:
        for file, value in settings.items():
            (directory / file).write_text(value)
        for slot, member in enumerate(members):
            name = Path(member).name
            (directory / "new_dev").write_text(Path(f"/sys/block/{name}/dev").read_text().strip())
            (directory / f"dev-{name}" / "offset").write_text("2048")
            (directory / f"dev-{name}" / "slot").write_text(str(slot))
        (directory / "resync_start").write_text("none")
        (directory / "array_state").write_text("active")
        yield "/dev/md_sets"
    finally:
        (directory / "array_state").write_text("clear")


def _followed_in_reshape(device: str, new_member: str) -> JsonObject:
    """Grow an array by a member, slowly enough to request the map in the middle."""
    directory = Path(f"/sys/block/{Path(device).name}/md")
    (directory / "sync_speed_max").write_text("1")
    run("mdadm", "--add", device, new_member)
    run("mdadm", "--grow", device, "--raid-devices=4")
    try:
        return {**follow(device), "position": (directory / "reshape_position").read_text()}
    finally:
        (directory / "sync_speed_max").write_text("system")
        run("mdadm", "--wait", device, check=False)
