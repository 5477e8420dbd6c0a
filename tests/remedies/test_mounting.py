"""Mounts, and new mounts with options that no remount can change, as exact commands."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Disruption
from ext4audit.remedies.mounting import (
    NOT_SET,
    change_by_new_mount,
    disruption_of_new_mount,
    left_by_hand,
    mount_by_fstab,
    move_to_fstab,
)
from ext4audit.remedies.remount import single_mount
from support.builders import filesystem, fstab_entry, known, mount, options, superblock
from support.remedies.steps_as_text import step_and_undo_lines


def with_options(*tokens: str, fstab: str = "defaults", **changes: Any) -> Filesystem:
    """Build a filesystem mounted with these options, and with others in fstab."""
    values: dict[str, Any] = {
        "options": known(options(*tokens)),
        "mounts": (mount(super_options=("rw", *tokens)),),
        "fstab": known((fstab_entry(*fstab.split(",")),)),
    }
    return filesystem(**{**values, **changes})


TWO = (mount(), mount("/b", mount_id=31))


def test_fstab_is_corrected_before_the_new_mount_reads_it() -> None:
    """The flags of the old mount are repeated, because fstab has others."""
    fs = with_options("data=writeback", fstab="noatime,data=writeback")
    assert step_and_undo_lines(change_by_new_mount(fs, {"data": "data=ordered"})) == [
        "persistent: fstab 7: noatime,data=writeback -> noatime",
        "immediate: umount /data",
        "immediate: mount -t ext4 -o rw,relatime /dev/sda /data",
        "verify: grep -qx data=ordered /proc/fs/ext4/sda/options",
        "rollback: umount /data",
        "rollback: mount -t ext4 -o rw,relatime,data=writeback /dev/sda /data",
        "rollback: fstab 7: noatime -> noatime,data=writeback",
    ]


def test_between_the_mounts_it_can_be_inspected() -> None:
    """e2fsck runs only where no other namespace holds the filesystem."""
    fs = with_options("norecovery", fstab="norecovery")
    assert step_and_undo_lines(change_by_new_mount(fs, {"norecovery": NOT_SET}, inspect=True)) == [
        "persistent: fstab 7: norecovery -> defaults",
        "immediate: umount /data",
        "immediate: test ! -e /sys/fs/ext4/sda && e2fsck -fn /dev/sda",
        "immediate: mount -t ext4 -o rw,relatime /dev/sda /data",
        (
            "verify: grep -q . /proc/fs/ext4/sda/options && "
            "! grep -qx norecovery /proc/fs/ext4/sda/options"
        ),
        "rollback: umount /data",
        "rollback: mount -t ext4 -o rw,relatime,norecovery /dev/sda /data",
        "rollback: fstab 7: defaults -> norecovery",
    ]


def test_an_explicit_state_stands_on_the_command_line() -> None:
    """What the mount has besides is repeated."""
    fs = with_options("data=journal")
    steps = change_by_new_mount(fs, {"delalloc": "nodelalloc"}, explicit=True)
    assert step_and_undo_lines(steps) == [
        "persistent: fstab 7: defaults -> defaults,nodelalloc",
        "immediate: umount /data",
        "immediate: mount -t ext4 -o rw,relatime,data=journal,nodelalloc /dev/sda /data",
        (
            "verify: grep -q . /proc/fs/ext4/sda/options && "
            "! grep -qx delalloc /proc/fs/ext4/sda/options"
        ),
        "rollback: umount /data",
        "rollback: mount -t ext4 -o rw,relatime,data=journal,delalloc /dev/sda /data",
        "rollback: fstab 7: defaults,nodelalloc -> defaults",
    ]


def test_of_several_mounts_only_fstab_is_corrected() -> None:
    """One unmount is not enough; with nothing to correct there are no steps.

    What the next mount puts in force is not verified.
    """
    fs = with_options("data=writeback", fstab="data=writeback", mounts=TWO)
    assert step_and_undo_lines(change_by_new_mount(fs, {"data": "data=ordered"})) == [
        "persistent: fstab 7: data=writeback -> defaults",
        "rollback: fstab 7: defaults -> data=writeback",
    ]
    by_hand = with_options("data=writeback", mounts=TWO)
    assert change_by_new_mount(by_hand, {"data": "data=ordered"}) == ()


def test_a_directory_is_listed_before_it_is_mounted_over() -> None:
    """It is free, and what is then mounted is the device. A name that no shell takes has none."""
    number = DeviceNumber(8, 16)
    entry = fstab_entry(mount_point="/my data")._replace(real_mount_point="/disk/my data")
    assert step_and_undo_lines(mount_by_fstab(entry, number)) == [
        "immediate: ls -A '/my data' && ! mountpoint -q '/my data'",
        "immediate: mount '/my data'",
        "verify: mountpoint -d '/my data' | grep -qx 8:16",
        "rollback: umount '/disk/my data'",
    ]
    assert mount_by_fstab(fstab_entry(mount_point="/a\n"), number) == ()
    made = fstab_entry("nofail", "X-mount.mkdir=0755")
    first, *_ = step_and_undo_lines(mount_by_fstab(made, number))
    assert first == "immediate: { test ! -e /data || ls -A /data; } && ! mountpoint -q /data"


TUNED = superblock(default_mount_options=("user_xattr", "nodelalloc"))
ENTRIES = (
    fstab_entry("noatime"),
    fstab_entry("bind", mount_point="/bind", line_number=8),
    fstab_entry("delalloc", mount_point="/c", line_number=9),
)


def hidden(**changes: Any) -> Filesystem:
    """Build a filesystem whose superblock sets nodelalloc, and three entries that name it."""
    values: dict[str, Any] = {
        "superblock": known(TUNED),
        "options": known(options(hidden=("nodelalloc",))),
        "fstab": known(ENTRIES),
    }
    return filesystem(**{**values, **changes})


def test_an_option_moves_from_the_superblock_to_every_entry() -> None:
    """A bind mount takes no options of ext4; an entry with the opposite state gets the new one."""
    assert step_and_undo_lines(move_to_fstab(hidden(), {"delalloc": "nodelalloc"})) == [
        "persistent: fstab 7: noatime -> noatime,nodelalloc",
        "persistent: fstab 9: delalloc -> nodelalloc",
        "persistent: umount /data",
        "persistent: tune2fs -o ^nodelalloc /dev/sda",
        "persistent: mount -t ext4 -o rw,relatime,nodelalloc /dev/sda /data",
        "verify: findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx nodelalloc",
        (
            "verify: tune2fs -l /dev/sda | grep -q UUID: && "
            "! tune2fs -l /dev/sda | grep -iE '^(default )?mount options:' | "
            "grep -qwE 'nodelalloc'"
        ),
        "rollback: umount /data",
        "rollback: tune2fs -o nodelalloc /dev/sda",
        "rollback: mount -t ext4 -o rw,relatime /dev/sda /data",
        "rollback: fstab 9: nodelalloc -> delalloc",
        "rollback: fstab 7: noatime,nodelalloc -> noatime",
    ]


def test_an_entry_that_has_the_option_stays_as_it_is() -> None:
    """There is nothing to write into it, and nothing to take back."""
    fs = hidden(fstab=known((fstab_entry("nodelalloc"),)))
    lines = step_and_undo_lines(move_to_fstab(fs, {"delalloc": "nodelalloc"}))
    assert lines[:2] == [
        "persistent: umount /data",
        "persistent: tune2fs -o ^nodelalloc /dev/sda",
    ]
    assert not [line for line in lines if "fstab" in line]


@pytest.mark.parametrize(
    ("fs", "tokens"),
    [
        pytest.param(hidden(), {"barrier": "nobarrier"}, id="an option without an opposite here"),
        pytest.param(
            hidden(superblock=known(superblock()), options=known(options())),
            {"delalloc": "nodelalloc"},
            id="the superblock does not set it",
        ),
        pytest.param(hidden(fstab=known(())), {"delalloc": "nodelalloc"}, id="no entry"),
        pytest.param(hidden(mounts=TWO), {"delalloc": "nodelalloc"}, id="two mounts"),
        pytest.param(
            hidden(mounts=(mount("/a\n"),), fstab=known((fstab_entry(mount_point="/a\n"),))),
            {"delalloc": "nodelalloc"},
            id="no shell word",
        ),
    ],
)
def test_where_one_part_is_impossible_nothing_is_moved(
    fs: Filesystem, tokens: dict[str, str]
) -> None:
    """A part of the move would leave the option out of force."""
    assert move_to_fstab(fs, tokens) == ()


@pytest.mark.parametrize(
    ("mounts", "words", "disruption", "single"),
    [
        ((mount(),), "", Disruption.UNMOUNT, True),
        ((mount("/"),), " Then restart: the root cannot be unmounted.", Disruption.REBOOT, False),
        (
            TWO,
            " Then unmount it from all its mount points and mount it again, or restart.",
            Disruption.UNMOUNT,
            False,
        ),
        (
            (),
            " Unmount it and mount it again in the mount namespace that has it mounted.",
            Disruption.UNMOUNT,
            False,
        ),
    ],
)
def test_what_is_left_by_hand(
    mounts: tuple[Any, ...], words: str, disruption: Disruption, *, single: bool
) -> None:
    """Only a single mount that is not the root can be made anew by commands."""
    fs = filesystem(mounts=mounts)
    assert left_by_hand(fs) == words
    assert disruption_of_new_mount(fs) is disruption
    assert (single_mount(fs) is not None) is single
