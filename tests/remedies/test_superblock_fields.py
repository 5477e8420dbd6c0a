"""Superblock fields: RAID hints, inode size, UUID and label, as exact commands."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Provenance
from ext4audit.finding import Phase, Step
from ext4audit.remedies.superblock_fields import (
    clear_label,
    errors_in_string,
    give_reserve_to_root,
    new_uuid,
    only_carrier,
    reserve_nothing,
    set_inode_size,
    set_stripe,
    stop_at_errors,
)
from support.builders import (
    UUID,
    filesystem,
    fstab_entry,
    known,
    mount,
    options,
    superblock,
    unknown,
)
from support.remedies.steps_as_text import commands, printed_steps, step_and_undo_lines

HELD = "test ! -e /sys/fs/ext4/sda && "
CHECK = f"{HELD}{{ e2fsck -f -p /dev/sda || test $? -eq 1; }}"
LISTING = "tune2fs -l /dev/sda"


def test_a_stripe_is_stored_and_put_in_force() -> None:
    """The remount follows the superblock, and the rollback restores both."""
    held = superblock(stride_blocks=8, stripe_width_blocks=24)
    fs = filesystem(superblock=known(held), options=known(options("stripe=24")))
    steps = set_stripe(fs, held, 16, 48)
    assert commands(steps, Phase.IMMEDIATE) == [
        "mount -o remount,rw,relatime,stripe=48 /dev/sda /data"
    ]
    assert commands(steps, Phase.PERSISTENT) == ["tune2fs -E stride=16,stripe_width=48 /dev/sda"]
    assert commands(steps, Phase.VERIFY) == [
        "grep -qx stripe=48 /proc/fs/ext4/sda/options",
        f"{LISTING} | grep -qxE 'RAID stride: +16'",
        f"{LISTING} | grep -qxE 'RAID stripe width: +48'",
    ]
    assert commands(steps, Phase.ROLLBACK) == [
        "tune2fs -E stride=8,stripe_width=24 /dev/sda",
        "mount -o remount,rw,relatime,stripe=24 /dev/sda /data",
    ]


def test_a_stripe_of_zero_is_verified_by_its_absence() -> None:
    """tune2fs -l prints no hint that is 0; a listing that fails is no success."""
    held = superblock(stride_blocks=0, stripe_width_blocks=24)
    idle = filesystem(alive=False, mounts=(), superblock=known(held))
    steps = set_stripe(idle, held, 0, 0)
    assert commands(steps, Phase.VERIFY) == [
        f"{LISTING} | grep -q UUID: && ! {LISTING} | grep -q '^{label}:'"
        for label in ("RAID stride", "RAID stripe width")
    ]
    assert not commands(steps, Phase.IMMEDIATE)


def test_hints_that_are_stored_already_are_not_stored_again() -> None:
    """Only the running mount and fstab change; the edit of fstab is undone before the remount."""
    held = superblock(stride_blocks=16, stripe_width_blocks=48)
    fs = filesystem(
        superblock=known(held),
        options=known(options("stripe=24")),
        fstab=known((fstab_entry("noatime", "stripe=24"),)),
    )
    steps = set_stripe(fs, held, 16, 48)
    lines = step_and_undo_lines(steps)
    assert lines[:2] == [
        "immediate: mount -o remount,rw,relatime,stripe=48 /dev/sda /data",
        "persistent: fstab 7: noatime,stripe=24 -> noatime",
    ]
    assert lines[-2:] == [
        "rollback: fstab 7: noatime -> noatime,stripe=24",
        "rollback: mount -o remount,rw,relatime,stripe=24 /dev/sda /data",
    ]
    assert not [line for line in lines if "tune2fs -E" in line]


def test_a_stripe_whose_present_state_is_unknown_waits_for_the_next_mount() -> None:
    """Without the present stripe a remount would have no rollback."""
    held = superblock()
    fs = filesystem(superblock=known(held), options=unknown("options"))
    steps = set_stripe(fs, held, 16, 48)
    assert not commands(steps, Phase.IMMEDIATE)
    assert commands(steps, Phase.PERSISTENT)


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(mounts=()),
        filesystem(mounts=(mount(root="/sub"),)),
        filesystem(mounts=(mount("/data\n"),)),
        filesystem(device="/dev/\0"),
        filesystem(device="/dev/\0", alive=False, mounts=()),
    ],
    ids=["elsewhere", "part", "mount point", "device", "idle device"],
)
def test_no_stripe_is_set_without_a_mount_of_the_whole(fs: Filesystem) -> None:
    """Nor where a name cannot be quoted."""
    assert set_stripe(fs, superblock(), 16, 48) == ()


RO = "errors=remount-ro"
CONTINUING = filesystem(options=known(options("errors=continue")))


def test_errors_are_stored_in_the_field_and_put_in_force() -> None:
    """Every mount then follows the superblock."""
    assert step_and_undo_lines(stop_at_errors(CONTINUING, RO)) == [
        "immediate: mount -o remount,rw,relatime,errors=remount-ro /dev/sda /data",
        "persistent: tune2fs -e remount-ro /dev/sda",
        "verify: grep -qx errors=remount-ro /proc/fs/ext4/sda/options",
        "verify: tune2fs -l /dev/sda | grep -qx 'Errors behavior: *Remount read-only'",
        "rollback: tune2fs -e continue /dev/sda",
        "rollback: mount -o remount,rw,relatime,errors=continue /dev/sda /data",
    ]


@pytest.mark.parametrize(
    ("changes", "edited"),
    [
        ({"fstab": known((fstab_entry("errors=continue"),))}, f"errors=continue -> {RO}"),
        ({"superblock": known(superblock(errors="remount-ro"))}, f"defaults -> defaults,{RO}"),
    ],
)
def test_errors_that_a_mount_set_are_taken_back(changes: dict[str, Any], edited: str) -> None:
    """In fstab, or by a remount: the field is not touched."""
    lines = step_and_undo_lines(stop_at_errors(CONTINUING._replace(**changes), RO))
    assert not [line for line in lines if "tune2fs -e" in line]
    assert f"immediate: mount -o remount,rw,relatime,{RO} /dev/sda /data" in lines
    assert f"persistent: fstab 7: {edited}" in lines


STRING = Provenance.SUPERBLOCK_STRING


@pytest.mark.parametrize(
    ("fs", "token"),
    [
        (CONTINUING, "errors=panic"),
        (CONTINUING._replace(mounts=()), RO),
        (CONTINUING._replace(mounts=(mount("/a\n"),)), RO),
        (CONTINUING._replace(device="/dev/a\n"), RO),
        (
            CONTINUING._replace(
                superblock=known(superblock(mount_option_string="errors=continue"))
            ),
            RO,
        ),
        (filesystem(options=known(options("errors=continue", set_by=STRING))), RO),
    ],
)
def test_no_errors_change_if_the_field_is_overridden(fs: Filesystem, token: str) -> None:
    """s_mount_opts overrules it; a panic is no command that a test may run."""
    assert stop_at_errors(fs, token) == ()


@pytest.mark.parametrize(
    ("changes", "by_string"),
    [
        ({}, False),
        ({"superblock": unknown("superblock")}, False),
        ({"options": unknown("options")}, False),
        ({"superblock": known(superblock(mount_option_string="nodev,errors=panic"))}, True),
        ({"options": known(options("errors=continue", set_by=STRING))}, True),
    ],
)
def test_the_string_is_seen_in_the_superblock_or_by_what_is_in_force(
    changes: dict[str, Any], *, by_string: bool
) -> None:
    """Either tells."""
    assert errors_in_string(CONTINUING._replace(**changes)) is by_string


RESERVED = {"resuid": "resuid=1000", "resgid": "resgid=100"}


def test_the_rollback_restores_the_owners_that_the_superblock_has() -> None:
    """The options in force do not show the fields."""
    held = known(superblock(reserved_uid=1000, reserved_gid=7))
    fs = filesystem(options=known(options(*RESERVED.values())), superblock=held)
    assert step_and_undo_lines(give_reserve_to_root(fs, RESERVED)) == [
        "immediate: mount -o remount,rw,relatime,resuid=0,resgid=0 /dev/sda /data",
        "persistent: tune2fs -u 0 -g 0 /dev/sda",
        "verify: grep -qx resuid=0 /proc/fs/ext4/sda/options",
        "verify: grep -qx resgid=0 /proc/fs/ext4/sda/options",
        (
            "verify: tune2fs -l /dev/sda | grep -q UUID: && "
            "! tune2fs -l /dev/sda | grep '^Reserved blocks [ug]id: *[1-9]'"
        ),
        "rollback: tune2fs -u 1000 -g 7 /dev/sda",
        "rollback: mount -o remount,rw,relatime,resuid=1000,resgid=100 /dev/sda /data",
    ]


def test_owners_in_fstab_are_corrected_there() -> None:
    """The fields are then as they were."""
    fs = filesystem(
        options=known(options("resuid=1000")),
        fstab=known((fstab_entry("noatime", "resuid=1000"),)),
    )
    lines = step_and_undo_lines(give_reserve_to_root(fs, {"resuid": "resuid=1000"}))
    assert "persistent: fstab 7: noatime,resuid=1000 -> noatime" in lines
    assert not [line for line in lines if "tune2fs -u" in line]


def test_owners_in_the_superblock_below_fstab_are_corrected_too() -> None:
    """Without the option in fstab, the next mount takes the account of the field (6.18)."""
    fs = filesystem(
        options=known(options("resuid=1000")),
        fstab=known((fstab_entry("noatime", "resuid=1000"),)),
        superblock=known(superblock(reserved_uid=33, reserved_gid=0)),
    )
    lines = step_and_undo_lines(give_reserve_to_root(fs, {"resuid": "resuid=1000"}))
    assert "persistent: fstab 7: noatime,resuid=1000 -> noatime" in lines
    assert "persistent: tune2fs -u 0 -g 0 /dev/sda" in lines
    assert "rollback: tune2fs -u 33 -g 0 /dev/sda" in lines


@pytest.mark.parametrize(
    ("changes", "token"),
    [
        ({}, "resuid=nobody"),
        ({}, "resuid=²"),
        ({"mounts": ()}, "resuid=1"),
        ({"mounts": (mount("/a\n"),)}, "resuid=1"),
        ({"device": "/dev/a\n"}, "resuid=1"),
        ({"superblock": unknown("superblock")}, "resuid=1"),
        ({"superblock": known(superblock(reserved_uid=None))}, "resuid=1"),
    ],
)
def test_no_owner_change_without_a_rollback(changes: dict[str, Any], token: str) -> None:
    """A name instead of a number, or no mount to work on."""
    assert give_reserve_to_root(filesystem(**changes), {"resuid": token}) == ()


def test_the_reserve_is_given_up_and_back() -> None:
    """By its number of blocks."""
    assert step_and_undo_lines(reserve_nothing(filesystem(), 77)) == [
        "immediate: tune2fs -m 0 /dev/sda",
        "verify: tune2fs -l /dev/sda | grep -qE '^Reserved block count: +0$'",
        "rollback: tune2fs -r 77 /dev/sda",
    ]
    assert reserve_nothing(filesystem(device="/dev/a\n"), 77) == ()


def test_inodes_are_enlarged_between_two_checks() -> None:
    """tune2fs -I moves all inode tables, which nothing takes back."""
    size = f"{LISTING} | grep -qE '^Inode size:[[:blank:]]+256$'"
    assert printed_steps(set_inode_size(filesystem(alive=False, mounts=()), 256)) == (
        Step(Phase.IMMEDIATE, CHECK),
        Step(Phase.IMMEDIATE, f"{HELD}{{ {size} || tune2fs -I 256 /dev/sda; }}"),
        Step(Phase.IMMEDIATE, CHECK),
        Step(Phase.VERIFY, size),
    )


@pytest.mark.parametrize(
    ("lines", "is_alone"),
    [
        ((f'/dev/sda1: UUID="{UUID}" TYPE="ext4"', '/dev/sdb: UUID="2" TYPE="ext4"'), True),
        ((f'/dev/sda1: LABEL="a" UUID="{UUID}"', f'/dev/sdb: UUID="{UUID}"'), False),
        ((f'/dev/sda1: UUID="{UUID}" TYPE="ext4"', f'/dev/sdb1: PARTUUID="{UUID}"'), True),
        ((), False),
    ],
)
def test_a_uuid_is_that_of_one_device(lines: tuple[str, ...], *, is_alone: bool) -> None:
    """The lines are those of blkid without arguments, in util-linux as in busybox."""
    blkid = f"blkid() {{ printf '%s\\n' {' '.join(map(shlex.quote, lines))}; }}"
    done = subprocess.run(["sh", "-c", f"{blkid}; {only_carrier(UUID).command}"], check=False)
    assert (done.returncode == 0) is is_alone


def test_a_new_uuid_is_another_one_and_the_old_one_comes_back() -> None:
    """The option -p of blkid reads the device itself, and not a cache."""
    found = '"$(blkid -p -o value -s UUID /dev/sda)"'
    assert printed_steps(new_uuid("sda", UUID)) == (
        Step(Phase.IMMEDIATE, CHECK),
        Step(Phase.IMMEDIATE, f"{HELD}test {found} = {UUID} && tune2fs -U random /dev/sda"),
        Step(Phase.VERIFY, f"blkid -p /dev/sda && test {found} != {UUID}"),
        Step(Phase.ROLLBACK, f"{CHECK} && {HELD}tune2fs -U {UUID} /dev/sda"),
    )


def test_a_label_is_cleared_and_set_again() -> None:
    """The names of devices below /sys have ! for a slash."""
    held = "test ! -e '/sys/fs/ext4/cciss!c0d0' && "
    check, clear, verify, back = printed_steps(clear_label("cciss/c0d0", "my data"))
    found = '"$(blkid -p -o value -s LABEL /dev/cciss/c0d0)"'
    assert clear.command == f"{held}test {found} = 'my data' && tune2fs -L '' /dev/cciss/c0d0"
    assert verify.command == f"blkid -p /dev/cciss/c0d0 && test {found} = ''"
    assert back.command == f"{check.command} && {held}tune2fs -L 'my data' /dev/cciss/c0d0"


@pytest.mark.parametrize("label", ["-x", "a'b", "a\\x20b", "\udcff", "ä"])
def test_a_label_that_lsblk_may_have_altered_is_left_alone(label: str) -> None:
    """The rollback would set another label."""
    assert clear_label("sda", label) == ()
    assert clear_label("sd\0a", "data") == ()
