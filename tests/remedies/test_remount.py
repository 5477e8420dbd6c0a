"""Remounts that change the named options only, as exact commands."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.options import EffectiveOption
from ext4audit.remedies.remount import (
    mount_again,
    remount_by_fstab,
    remount_command,
    revert_steps,
    usable_mount,
    without_mount,
)
from support.builders import filesystem, fstab_entry, known, mount, options, unknown
from support.remedies.plain import plain


def mounted(*tokens: str, fstab: str = "defaults", **changes: Any) -> Filesystem:
    """Build a filesystem mounted with these options, and with others in fstab."""
    values: dict[str, Any] = {
        "options": known(options(*tokens)),
        "mounts": (mount(super_options=("rw", *tokens)),),
        "fstab": known((fstab_entry(*fstab.split(",")),)),
    }
    return filesystem(**{**values, **changes})


READ_ONLY = (mount(flags=("ro", "noexec", "relatime"), super_options=("ro",)),)
NOATIME = (mount(flags=("rw", "noatime")),)
OUT = "--options-source=disable -o"


@pytest.mark.parametrize(
    ("fs", "remount", "anew"),
    [
        pytest.param(mounted(), "-o remount,nobarrier", "-o nobarrier", id="fstab agrees"),
        pytest.param(
            mounted(fstab="noauto,rw"), "-o remount,nobarrier", "-o nobarrier", id="words of mount"
        ),
        pytest.param(
            mounted(fstab="barrier"), "-o remount,nobarrier", "-o nobarrier", id="the option itself"
        ),
        pytest.param(
            filesystem(fstab=known(())),
            "-o remount,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="no entry",
        ),
        pytest.param(
            filesystem(fstab=unknown("fstab")),
            f"{OUT} remount,rw,relatime,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="fstab not read",
        ),
        pytest.param(
            mounted(fstab="nosuid"),
            "-o remount,rw,relatime,suid,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="another flag",
        ),
        pytest.param(
            mounted(mounts=READ_ONLY),
            "-o remount,ro,noexec,relatime,nobarrier",
            "-t ext4 -o ro,noexec,relatime,nobarrier /dev/sda",
            id="mounted by hand",
        ),
        pytest.param(
            mounted(fstab="commit=30"),
            "-o remount,rw,relatime,commit=5,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="another option",
        ),
        pytest.param(
            mounted("commit=30", fstab="commit=30"),
            "-o remount,nobarrier",
            "-o nobarrier",
            id="an option that is in force",
        ),
        pytest.param(
            mounted(fstab="dioread_nolock"),
            "-o remount,nobarrier",
            "-o nobarrier",
            id="a default of the kernel",
        ),
        pytest.param(
            mounted("nodioread_nolock", fstab="dioread_nolock"),
            "-o remount,rw,relatime,dioread_lock,nobarrier",
            "-t ext4 -o rw,relatime,nodioread_nolock,nobarrier /dev/sda",
            id="spelled for old kernels",
        ),
        pytest.param(
            mounted(fstab="commit=30", options=unknown("options")),
            f"{OUT} remount,rw,relatime,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="options not read",
        ),
        pytest.param(
            mounted(fstab="data=writeback"),
            f"{OUT} remount,rw,relatime,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="an option that no remount changes",
        ),
        pytest.param(
            mounted(fstab="data=ordered,nosuid"),
            "-o remount,rw,relatime,suid,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="the data mode in force is no obstacle",
        ),
        pytest.param(
            mounted("commit=30"),
            "-o remount,nobarrier",
            "-t ext4 -o rw,relatime,commit=30,nobarrier /dev/sda",
            id="an option set by hand",
        ),
        pytest.param(
            mounted(fstab="noatime"),
            "-o remount,atime,nostrictatime,rw,relatime,nobarrier",
            "-t ext4 -o rw,relatime,nobarrier /dev/sda",
            id="noatime in fstab",
        ),
        pytest.param(
            mounted(fstab="strictatime", mounts=NOATIME),
            "-o remount,nostrictatime,rw,noatime,nobarrier",
            "-t ext4 -o rw,noatime,nobarrier /dev/sda",
            id="noatime in force",
        ),
        pytest.param(
            mounted(fstab="noatime", mounts=(mount(flags=("rw",)),)),
            "-o remount,rw,strictatime,nobarrier",
            "-t ext4 -o rw,strictatime,nobarrier /dev/sda",
            id="strictatime in force",
        ),
    ],
)
def test_only_the_named_option_changes(fs: Filesystem, remount: str, anew: str) -> None:
    """What fstab would change besides is repeated as it is, or fstab is left out."""
    (on,) = fs.mounts
    assert remount_command(fs, on, ["nobarrier"], ["barrier"]) == f"mount {remount} /data"
    assert mount_again(fs, on, ["nobarrier"], ["barrier"]) == f"mount {anew} /data"


def test_nothing_to_change_is_the_plain_command() -> None:
    """A mount by fstab needs the directory only."""
    fs = mounted()
    assert remount_command(fs, fs.mounts[0], [], []) == "mount -o remount /data"
    assert mount_again(fs, fs.mounts[0], [], []) == "mount /data"


def in_force(fs: Filesystem, *names: str) -> list[EffectiveOption]:
    """Return some options of a filesystem."""
    found = [fs.options.value.find(name) for name in names]  # type: ignore[union-attr]
    return [option for option in found if option is not None]


def test_options_go_back_to_their_baseline() -> None:
    """All at once; the rollback sets them as they are."""
    fs = mounted("commit=30", "nobarrier")
    assert plain(revert_steps(fs, fs.mounts[0], in_force(fs, "commit", "barrier"))) == [
        "immediate: mount -o remount,commit=5,barrier /data",
        "verify: ! grep -qx commit=30 /proc/fs/ext4/sda/options",
        "verify: ! grep -qx nobarrier /proc/fs/ext4/sda/options",
        "rollback: mount -o remount,commit=30,nobarrier /data",
    ]
    locked = mounted("nodioread_nolock")
    assert plain(revert_steps(locked, locked.mounts[0], in_force(locked, "dioread_nolock"))) == [
        "immediate: mount -o remount,dioread_nolock /data",
        "verify: ! grep -qx nodioread_nolock /proc/fs/ext4/sda/options",
        "rollback: mount -o remount,dioread_lock /data",
    ]


@pytest.mark.parametrize(
    ("token", "name", "at"),
    [("nodelalloc", "delalloc", "/data"), ("nobarrier", "barrier", "/a\n"), ("resv", "resv", "/")],
)
def test_what_no_remount_can_take_back_has_no_command(token: str, name: str, at: str) -> None:
    """An option that it may not change, an odd name, an option without a known baseline."""
    fs = mounted(token)
    assert in_force(fs, name)
    assert revert_steps(fs, mount(at), in_force(fs, name)) == ()


def test_a_whole_entry_comes_into_force() -> None:
    """The rollback leaves fstab out, and sets all as it was."""
    changed = [("commit=30", "commit=5"), ("dioread_nolock", "nodioread_nolock")]
    steps = remount_by_fstab(filesystem(), mount(), changed, ["noatime", "nosuid"], ["nodev"])
    assert plain(steps) == [
        "immediate: mount -o remount,noatime,nodev /data",
        "verify: grep -qx commit=30 /proc/fs/ext4/sda/options",
        "verify: grep -qx dioread_nolock /proc/fs/ext4/sda/options",
        "verify: findmnt -no OPTIONS /data | tr , '\\n' | grep -qx noatime",
        "verify: findmnt -no OPTIONS /data | tr , '\\n' | grep -qx nosuid",
        f"rollback: mount {OUT} remount,rw,relatime,commit=5,dioread_lock /data",
    ]
    strict = plain(remount_by_fstab(filesystem(), mount(), [], ["strictatime"], []))
    assert strict[1] == (
        "verify: findmnt -n /data && "
        "! findmnt -no OPTIONS /data | tr , '\\n' | grep -qxE 'relatime|noatime'"
    )
    assert remount_by_fstab(filesystem(), mount("/a\n"), [], [], []) == ()


HIDDEN = mount("/old", mount_id=29)._replace(overmounted=True)
PART = mount("/part", mount_id=28, root="/sub")
FROZEN = mount("/frozen", mount_id=27, flags=("ro",))


@pytest.mark.parametrize(
    ("mounts", "chosen", "words"),
    [
        ((mount("/b", mount_id=31), mount("/a")), "/a", None),
        ((HIDDEN, PART, FROZEN, mount("/a")), "/a", None),
        ((), None, "in the mount namespace that has it mounted"),
        ((HIDDEN,), None, "once no other mount hides it"),
        ((HIDDEN, PART), None, "through a mount of the whole filesystem, which is not here"),
        ((FROZEN,), None, "through a mount of the whole filesystem, which is not here"),
    ],
)
def test_the_mount_to_work_on(
    mounts: tuple[Any, ...], chosen: str | None, words: str | None
) -> None:
    """The oldest of the whole tree that nothing hides, read-only as the superblock is."""
    fs = filesystem(mounts=mounts)
    found = usable_mount(fs)
    assert (found.mount_point if found else None) == chosen
    assert words is None or without_mount(fs) == words
