"""Options in force with a word in the superblock's option string that the kernel may refuse."""

from __future__ import annotations

from pathlib import Path

from lab.support.devices import disk, run
from lab.support.mounting import mount_call, unmount
from lab.support.scenario import JsonObject, scenario

PLACE = Path("/mnt/string")
WORDS = ("nouid32", "noatime", "ro", "nodealloc", "noacl", "commit=x", "x-a")
"""One option, and words that mount(8) or only some kernels take; one is misspelled."""


@scenario(every_era=True)
def superblock_string() -> JsonObject:
    """Mount with each word between two options of the string, and with journal_data, no journal.

    Return the options file of each.
    """
    device = disk("wide")
    PLACE.mkdir(exist_ok=True)
    run("mke2fs", "-q", "-F", "-t", "ext4", device, "160M")
    strings = {word: _options_with(device, f"nodelalloc,{word},nobarrier") for word in WORDS}
    run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", device, "160M")
    run("tune2fs", "-o", "journal_data", device)
    return {"strings": strings, "journal_data": _mounted(device)}


def _options_with(device: str, string: str) -> list[str]:
    run("debugfs", "-w", "-R", f"set_super_value mount_opts {string}", device)
    return _mounted(device)


def _mounted(device: str) -> list[str]:
    error = mount_call(device, PLACE)
    assert not error, error
    try:
        return Path(f"/proc/fs/ext4/{Path(device).name}/options").read_text().split()
    finally:
        unmount(PLACE)
