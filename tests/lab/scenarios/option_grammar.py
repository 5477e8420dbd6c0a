"""Options and values that each kernel's mount accepts, for the product's grammar."""

from __future__ import annotations

from pathlib import Path

from lab.support.devices import disk, run
from lab.support.mounting import mount_call, unmount
from lab.support.scenario import JsonObject, scenario
from support.options.grammar import REQUIRED_COMPANIONS, options_to_try

PLACE = Path("/mnt/grammar")


@scenario(every_era=True)
def option_grammar() -> JsonObject:
    """Mount a filesystem with each option of the grammar, as ext4, ext3 and ext2."""
    return {fstype: _given(fstype) for fstype in ("ext4", "ext3", "ext2")}


def _given(fstype: str) -> JsonObject:
    device = disk("wide")
    PLACE.mkdir(exist_ok=True)
    run("mke2fs", "-q", "-F", "-b", "4096", "-t", fstype, device, "160M")
    return {
        word: _try(device, REQUIRED_COMPANIONS.get(word, word), fstype) for word in options_to_try()
    }


def _try(device: str, options: str, fstype: str) -> int:
    error = mount_call(device, PLACE, options, fstype=fstype)
    if not error:
        unmount(PLACE)
    return error
