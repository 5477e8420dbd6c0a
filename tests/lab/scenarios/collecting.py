"""The shell collector against the live source, on stacks that loop devices cannot build."""

from __future__ import annotations

import os
from pathlib import Path

from ext4audit.facts.mount import DeviceNumber
from lab.scenarios.stacks_md import CHUNK, GIB_SECTORS, raid_disks
from lab.support.devices import disk, md, mounted
from lab.support.scenario import JsonObject, scenario
from lab.support.stacks import linear, logical_volume, luks, partitions
from support.shells.collector import SHELLS, differing_answers

LAZY = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")


def compared(device: str, *shells: str) -> JsonObject:
    """Return where each shell's snapshot differs from the live source, by ask."""
    with mounted(device, mkfs=LAZY) as place:
        only = [_number(place)]
        return {shell: _differences(shell, only) for shell in shells}


def _differences(shell: str, only: list[DeviceNumber]) -> dict[str, list[str]]:
    found = differing_answers(shell, only)
    return {str(ask): [repr(live)[:300], repr(sent)[:300]] for ask, (live, sent) in found.items()}


def _number(place: Path) -> DeviceNumber:
    number = place.stat().st_dev
    return DeviceNumber(os.major(number), os.minor(number))


@scenario(every_era=True)
def the_collector() -> JsonObject:
    """Compare on LUKS on a partition of a RAID0: device mapper, partition and md in one stack."""
    with (
        md("0", raid_disks(0, 1, 2), CHUNK) as device,
        partitions(device, 3072, sectors=GIB_SECTORS) as parts,
        luks(parts[0]) as opened,
    ):
        return compared(opened, *SHELLS)


@scenario()
def the_collector_on_stacks() -> JsonObject:
    """Compare on the other kinds of stack, with one shell."""
    found = {}
    with md("10", raid_disks(1, 0, 3, 2), CHUNK, "--size=1G") as device:
        found["raid10"] = compared(device, "dash")
    with md("5", [*raid_disks(0, 1), "missing"], CHUNK, "--size=1G") as device:
        found["degraded raid5"] = compared(device, "dash")
    with logical_volume(raid_disks(2, 0), "-L", "1G", "-i", "2", "-I", "64k") as device:
        found["lvm"] = compared(device, "dash")
    with linear(disk("wide"), 8192, GIB_SECTORS) as device:
        found["dm-linear"] = compared(device, "dash")
    found["nvme"] = compared(disk("nvme"), "dash")
    return found
