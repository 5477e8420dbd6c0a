"""The shell collector against the live source, on stacks that loop devices cannot build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources import Answer, Ask
from lab.scenarios.stacks_md import CHUNK, GIB_SECTORS, raid_disks
from lab.support.devices import md, mounted
from lab.support.scenario import JsonObject, scenario
from lab.support.stacks import luks, partitions
from support.shells.collector import SHELLS, captured, differences, live

LAZY = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")


def compared(device: str, *shells: str) -> JsonObject:
    """Return where each shell's snapshot differs from the live source, by ask."""
    with mounted(device, mkfs=LAZY) as place:
        only = [_number(place)]
        before = live(only)
        sent = {shell: captured(shell) for shell in shells}
        after = live(only)
    return {shell: _texts(differences(before, sent[shell], after)) for shell in shells}


def _texts(found: Mapping[Ask, tuple[Answer, Answer | None]]) -> dict[str, list[str]]:
    return {str(ask): [repr(here)[:300], repr(sent)[:300]] for ask, (here, sent) in found.items()}


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
def the_collector_on_a_degraded_array() -> JsonObject:
    """Compare on an array that lacks a member; test_replaying.py compares on complete stacks."""
    with md("5", [*raid_disks(0, 1), "missing"], CHUNK, "--size=1G") as device:
        return compared(device, "dash")
