"""Access times, sync and the flags that harden a mount, as exact commands."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.evidence import Undetermined
from ext4audit.facts.mount import Mount
from ext4audit.finding import Phase
from ext4audit.remedies.flags import (
    clear_sync,
    relax_access_times,
    remountable,
    restore_flags,
    seen_here,
    set_flags_and_options,
)
from support.builders import filesystem, fstab_entry, known, mount, unknown
from support.remedies.steps_as_text import step_and_undo_lines

NOSUID = filesystem(fstab=known((fstab_entry("nosuid"),)))
NODELALLOC = {"delalloc": "nodelalloc"}
SHOWS_NOATIME = "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx noatime"
SHOWS_NODELALLOC = (
    "verify: grep -q . /proc/fs/ext4/sda/options && ! grep -qx delalloc /proc/fs/ext4/sda/options"
)


def test_a_flag_and_an_option_are_one_series() -> None:
    """One edit of fstab writes both; the rollback is the opposite."""
    steps = set_flags_and_options(NOSUID, ["noatime"], NODELALLOC, by_new_mount=False)
    assert step_and_undo_lines(steps) == [
        "persistent: fstab 7: nosuid -> nosuid,noatime,nodelalloc",
        "immediate: mount -o remount,rw,noatime /dev/sda /data",
        "immediate: mount -o remount,rw,noatime,nodelalloc /dev/sda /data",
        SHOWS_NOATIME,
        SHOWS_NODELALLOC,
        "rollback: mount -o remount,rw,noatime,delalloc /dev/sda /data",
        "rollback: mount -o remount,rw,relatime /dev/sda /data",
        "rollback: fstab 7: nosuid,noatime,nodelalloc -> nosuid",
    ]


def test_an_option_that_no_remount_sets_comes_by_a_new_mount() -> None:
    """The flag is in force already, and the new mount keeps it."""
    steps = set_flags_and_options(NOSUID, ["noatime"], NODELALLOC, by_new_mount=True)
    assert step_and_undo_lines(steps)[2:4] == [
        "immediate: umount /data",
        "immediate: mount -t ext4 -o rw,noatime,nodelalloc /dev/sda /data",
    ]
    assert step_and_undo_lines(steps)[6:8] == [
        "rollback: umount /data",
        "rollback: mount -t ext4 -o rw,noatime,delalloc /dev/sda /data",
    ]


def test_every_mount_gets_the_flag() -> None:
    """Only the entry of the first one is in fstab; a mount that has the flag is left alone."""
    has_it = mount("/c", mount_id=32, flags=("rw", "noatime"))
    fs = filesystem(mounts=(mount(), mount("/b", mount_id=31), has_it))
    assert step_and_undo_lines(set_flags_and_options(fs, ["noatime"], {}, by_new_mount=False)) == [
        "persistent: fstab 7: defaults -> defaults,noatime",
        "immediate: mount -o remount,rw,noatime /dev/sda /data",
        "immediate: mount -o remount,rw,noatime /dev/sda /b",
        SHOWS_NOATIME,
        "verify: findmnt -nfd backward -o OPTIONS -M /b | tr , '\\n' | grep -qx noatime",
        "rollback: mount -o remount,rw,relatime /dev/sda /b",
        "rollback: mount -o remount,rw,relatime /dev/sda /data",
        "rollback: fstab 7: defaults,noatime -> defaults",
    ]


def test_rollback_restores_access_times() -> None:
    """noatime, or strictatime, which the mount table shows by neither of the others."""
    gentle = filesystem(mounts=(mount(flags=("rw", "noatime")),))
    steps = set_flags_and_options(gentle, ["relatime"], {}, by_new_mount=False)
    assert step_and_undo_lines(steps)[-2] == "rollback: mount -o remount,rw,noatime /dev/sda /data"
    strict = filesystem(mounts=(mount(flags=("rw",)),), fstab=unknown("fstab"))
    assert step_and_undo_lines(
        set_flags_and_options(strict, ["noatime"], NODELALLOC, by_new_mount=False)
    ) == [
        "immediate: mount -o remount,rw,noatime /dev/sda /data",
        "immediate: mount -o remount,rw,noatime,nodelalloc /dev/sda /data",
        SHOWS_NOATIME,
        SHOWS_NODELALLOC,
        "rollback: mount -o remount,rw,noatime,delalloc /dev/sda /data",
        "rollback: mount -o remount,rw,strictatime /dev/sda /data",
    ]


def test_flags_and_options_are_set_together_or_not_at_all() -> None:
    """A mount of a part cannot be remounted without changing more."""
    fs = filesystem(mounts=(mount(), mount("/b", mount_id=31, root="/sub")))
    assert set_flags_and_options(fs, ["noatime"], {}, by_new_mount=False) == ()
    assert set_flags_and_options(fs, [], {}, by_new_mount=False) == ()


STRICT = mount(flags=("rw",))


@pytest.mark.parametrize(
    ("wanted", "fstab", "edited"),
    [
        ("noatime", "strictatime,nodev", "nodev,noatime"),
        ("relatime", "strictatime", "defaults"),
        ("relatime", "noatime,norelatime", "defaults"),
    ],
)
def test_strict_access_times_are_relaxed(wanted: str, fstab: str, edited: str) -> None:
    """The default is relatime, which is not written."""
    fs = filesystem(mounts=(STRICT,), fstab=known((fstab_entry(*fstab.split(",")),)))
    lines = step_and_undo_lines(relax_access_times(fs, (STRICT,), wanted))
    assert lines == [
        f"persistent: fstab 7: {fstab} -> {edited}",
        f"immediate: mount -o remount,rw,{wanted} /dev/sda /data",
        f"verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx {wanted}",
        "rollback: mount -o remount,rw,strictatime /dev/sda /data",
        f"rollback: fstab 7: {edited} -> {fstab}",
    ]


def test_access_times_are_relaxed_on_all_mounts_or_on_none() -> None:
    """In the order of phases."""
    other = mount("/b", mount_id=31, flags=("rw",))
    fs = filesystem(mounts=(STRICT, other), fstab=known(()))
    lines = step_and_undo_lines(relax_access_times(fs, fs.mounts, "noatime"))
    phases = [line.split(":")[0] for line in lines]
    assert phases == ["immediate"] * 2 + ["verify"] * 2 + ["rollback"] * 2
    part = mount("/b", mount_id=31, flags=("rw",), root="/sub")
    assert relax_access_times(fs, (STRICT, part), "noatime") == ()


SYNCHRONOUS = filesystem(
    mounts=(mount(super_options=("rw", "sync")),),
    fstab=known(
        (
            fstab_entry("sync", "dirsync", "nosuid"),
            fstab_entry("sync", "bind", mount_point="/b", line_number=8),
            fstab_entry("dirsync", mount_point="/c", line_number=9),
        )
    ),
)
NO_SYNC = (
    "verify: findmnt -nfd backward -o FS-OPTIONS -M /data | grep -q . && "
    "! findmnt -nfd backward -o FS-OPTIONS -M /data | grep -qwE 'sync|dirsync'"
)


def test_sync_is_removed_by_remount() -> None:
    """It is the superblock's: every entry is corrected, except bind mounts."""
    assert step_and_undo_lines(clear_sync(SYNCHRONOUS, dirsync=False)) == [
        "persistent: fstab 7: sync,dirsync,nosuid -> nosuid",
        "persistent: fstab 9: dirsync -> defaults",
        "immediate: mount -o remount,rw,relatime,async /dev/sda /data",
        NO_SYNC,
        "rollback: mount -o remount,rw,relatime,sync /dev/sda /data",
        "rollback: fstab 9: defaults -> dirsync",
        "rollback: fstab 7: nosuid -> sync,dirsync,nosuid",
    ]


def test_dirsync_is_removed_by_a_new_mount() -> None:
    """No remount clears it."""
    fs = SYNCHRONOUS._replace(mounts=(mount(super_options=("rw", "sync", "dirsync")),))
    assert step_and_undo_lines(clear_sync(fs, dirsync=True))[2:7] == [
        "immediate: umount /data",
        "immediate: mount -t ext4 -o rw,relatime /dev/sda /data",
        NO_SYNC,
        "rollback: umount /data",
        "rollback: mount -t ext4 -o rw,relatime,sync,dirsync /dev/sda /data",
    ]


@pytest.mark.parametrize(
    ("changes", "dirsync"),
    [
        ({"mounts": ()}, False),
        ({"mounts": (mount(root="/sub"),)}, False),
        ({"mounts": (mount("/a\n"),)}, False),
        ({"device": "/dev/a\n"}, True),
        ({"mounts": (mount(), mount("/b", mount_id=31))}, True),
    ],
)
def test_sync_stays_where_no_command_reaches_it(changes: dict[str, Any], *, dirsync: bool) -> None:
    """A part of the tree, an odd name, or several mounts to unmount."""
    assert clear_sync(filesystem(**changes), dirsync=dirsync) == ()


def test_flags_of_one_mount_leave_the_superblock_alone() -> None:
    """remount,bind takes exactly the flags that are named."""
    hard = mount(flags=("ro", "nosuid", "noatime"))
    assert step_and_undo_lines(restore_flags(hard, ["nodev", "noexec"])) == [
        "immediate: mount -o remount,bind,ro,nosuid,noatime,nodev,noexec /dev/sda /data",
        "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx nodev",
        "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx noexec",
        "rollback: mount -o remount,bind,ro,nosuid,noatime /dev/sda /data",
    ]
    plain_mount = mount(super_options=("rw", "sync"))
    assert step_and_undo_lines(restore_flags(plain_mount, ["nodev"]))[-1] == (
        "rollback: mount -o remount,bind,rw,relatime /dev/sda /data"
    )
    assert restore_flags(mount("/a\n"), ["nodev"]) == ()
    assert restore_flags(mount()._replace(overmounted=True), ["nodev"]) == ()


@pytest.mark.parametrize(
    ("of", "possible"),
    [
        (mount(), True),
        (mount(flags=("ro",), super_options=("ro",)), True),
        (mount(flags=("ro",)), False),
        (mount(root="/sub"), False),
        (mount()._replace(overmounted=True), False),
    ],
)
def test_a_remount_reaches_the_whole_tree_only(of: Mount, *, possible: bool) -> None:
    """And only where the mount is read-only as the superblock is."""
    assert remountable(of) is possible


def test_access_times_stay_where_a_name_cannot_be_quoted() -> None:
    """A newline at the end has no word."""
    strict = mount("/a\n", flags=("strictatime",))
    assert relax_access_times(filesystem(mounts=(strict,)), (strict,), "noatime") == ()


def test_mounts_of_other_namespaces_are_not_seen() -> None:
    """What their flags are is unknown."""
    assert seen_here(filesystem()) == (mount(),)
    with pytest.raises(Undetermined):
        seen_here(filesystem(mounts=()))


def test_strictatime_is_verified_by_absence_of_other_options() -> None:
    """It shows neither of the others; a check for the word itself would never succeed."""
    steps = set_flags_and_options(filesystem(), ("strictatime",), {}, by_new_mount=False)
    checks = [step.command for step in steps if step.phase is Phase.VERIFY]
    (check,) = [command for command in checks if "findmnt" in command]
    assert check.endswith("grep -qxE 'relatime|noatime'")
