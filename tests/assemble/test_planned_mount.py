"""planned_mount: the mount and the fstab entry of a plan, as the kernel and fstab show them."""

from __future__ import annotations

import pytest

from ext4audit.assemble.planned_mount import planned_entry, planned_mount
from ext4audit.facts.mount import DeviceNumber
from planned import plan

NUMBER = DeviceNumber(9, 0)


@pytest.mark.parametrize(
    ("words", "flags", "options"),
    [
        ("", "rw,relatime", "rw"),
        ("noatime,nobarrier", "rw,noatime", "rw,nobarrier"),
        ("barrier=0", "rw,relatime", "rw,nobarrier"),
        ("nobarrier,barrier", "rw,relatime", "rw,barrier"),
        ("ro,strictatime,nosuid", "ro,nosuid", "ro"),
        ("ro,rw,sync,lazytime,async", "rw,relatime", "rw,lazytime"),
        ("user,exec", "rw,nosuid,nodev,relatime", "rw"),
        ("nofail,x-systemd.automount,_netdev", "rw,relatime", "rw"),
        ("data=journal", "rw,relatime", "rw,data=journal,nodelalloc,nodioread_nolock"),
        ("nobariers", "rw,relatime", "rw"),
    ],
)
def test_the_line_of_mountinfo(words: str, flags: str, options: str) -> None:
    """Flags of the mount and options of the superblock; the last word wins."""
    mount = planned_mount(plan("", *filter(None, words.split(","))), NUMBER)
    assert ",".join(mount.mount_options) == flags
    assert ",".join(mount.super_options) == options
    assert (mount.mount_point, mount.source, mount.root) == ("/data", "/dev/md0", "/")


@pytest.mark.parametrize(
    ("words", "mount_point", "raw", "fsck_pass"),
    [
        ((), "/data", "defaults", 2),
        (("noatime", "nobarrier"), "/data", "noatime,nobarrier", 2),
        (("noatime",), "/", "noatime", 1),
    ],
)
def test_the_entry_of_fstab(
    words: tuple[str, ...], mount_point: str, raw: str, fsck_pass: int
) -> None:
    """It asks for the same, on the planned device; the root is checked first."""
    entry = planned_entry(plan("", *words, mount_point=mount_point), NUMBER)
    assert (entry.line.raw_options, entry.line.fsck_pass) == (raw, fsck_pass)
    assert entry.is_for(planned_mount(plan(mount_point=mount_point), NUMBER))
