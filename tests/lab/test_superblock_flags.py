"""A remount by the product keeps each flag of the superblock, on each booted kernel."""

from __future__ import annotations

from ext4audit.parsers.devices_and_mounts import parse_mount_table
from lab.conftest import Guest

KEPT_BY_ITSELF = {"dirsync"}
"""No remount sets or clears it (MS_RMT_MASK of include/uapi/linux/fs.h)."""


def listed(line: str) -> set[str]:
    """Return the superblock options in a line of mountinfo, without the remounted option."""
    (mount,) = parse_mount_table(line).mounts
    return set(mount.super_options) - {"rw", "nobarrier"}


def test_a_remount_changes_what_it_names(any_guest: Guest) -> None:
    """The same flags are listed before and after."""
    for flag, seen in any_guest["superblock_flags"].items():
        assert (flag, listed(seen["ours"])) == (flag, listed(seen["mounted"]))
        (mount,) = parse_mount_table(seen["ours"]).mounts
        assert "nobarrier" in mount.super_options


def test_a_remount_clears_what_it_does_not_repeat(any_guest: Guest) -> None:
    """All but dirsync; before Linux 6.1 also the version counter, which later has no switch."""
    seen = any_guest["superblock_flags"]
    shown = {flag: listed(each["mounted"]) for flag, each in seen.items()}
    assert {flag: listed(each["plain"]) for flag, each in seen.items()} == {
        flag: flags & KEPT_BY_ITSELF for flag, flags in shown.items()
    }
    counts = {"i_version"} if any_guest.era == "5.10" else set()
    assert (shown["i_version"], shown["iversion"]) == (counts, counts)
