"""Checks by e2fsck: what they run, what verifies them, and when a person has to decide."""

from __future__ import annotations

from ext4audit.finding import Disruption, Phase, Step
from ext4audit.remedies.checking import (
    check_filesystem,
    preen,
    repair_from_backup,
    without_error_state,
)
from support.builders import filesystem, known, mount, unknown
from support.remedies.steps_as_text import commands, printed_steps

HELD = "test ! -e /sys/fs/ext4/sda && "
CHECK = "{ e2fsck -f -p /dev/sda || test $? -eq 1; }"
ROOT = filesystem(mounts=(mount("/"),))
IDLE = filesystem(alive=False, mounts=())


def test_a_destroyed_superblock_is_repaired_by_a_person() -> None:
    """The advice has no steps; what is mounted is saved before."""
    advice = repair_from_backup(filesystem(), known(1024))
    assert (advice.steps, advice.disruption) == ((), Disruption.UNMOUNT)
    assert advice.summary.startswith("Copy the data first, before any unmount or restart")
    assert "e2fsck -b 8193 -B 1024" in advice.summary
    assert repair_from_backup(IDLE, unknown("block size")).summary.startswith("Find out what")


def test_preen_replays_and_verifies_a_clean_state() -> None:
    """Without -f, so that e2fsck decides by the recorded errors what it reads."""
    assert printed_steps(preen(IDLE)) == (
        Step(Phase.IMMEDIATE, f"{HELD}{{ e2fsck -p /dev/sda || test $? -eq 1; }}"),
        Step(
            Phase.VERIFY,
            "tune2fs -l /dev/sda | grep -qE '^Filesystem state: +clean$' && "
            "! tune2fs -l /dev/sda | grep -qwE 'needs_recovery|orphan_present'",
        ),
    )


def test_a_check_is_verified_by_the_error_counter() -> None:
    """And by a written file where that is wanted; a repair has no rollback."""
    counter = "grep -qx 0 /sys/fs/ext4/sda/errors_count"
    remedy = check_filesystem(filesystem())
    assert remedy.disruption is Disruption.UNMOUNT
    assert remedy.summary.endswith("and mount it.")
    assert commands(remedy.steps, Phase.IMMEDIATE) == [
        "umount /data",
        f"{HELD}{CHECK}",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    ]
    assert commands(remedy.steps, Phase.VERIFY) == [counter]
    assert not commands(remedy.steps, Phase.ROLLBACK)
    tried = commands(check_filesystem(filesystem(), try_write=True).steps, Phase.VERIFY)
    assert tried == [
        counter,
        'file=$(mktemp -p /data .ext4audit.XXXXXX) && sync "$file" && rm "$file"',
    ]


def test_no_file_is_written_through_a_read_only_mount() -> None:
    """It would fail although the filesystem is repaired."""
    fs = filesystem(mounts=(mount(flags=("ro",), super_options=("ro",)),))
    steps = check_filesystem(fs, try_write=True).steps
    assert not [step for step in steps if "mktemp" in step.command]


def test_the_root_is_checked_by_a_reboot() -> None:
    """It cannot be unmounted."""
    remedy = check_filesystem(ROOT)
    assert (remedy.disruption, remedy.steps) == (Disruption.REBOOT, ())


def test_after_a_check_it_is_mounted_as_before_the_error() -> None:
    """The options that an error added are not repeated, and a forced ro is rw again."""
    forced = mount(super_options=("ro", "noatime", "emergency_ro", "shutdown", "abort"))
    assert without_error_state(forced).super_options == ("rw", "noatime")
    wanted = mount(flags=("ro",), super_options=("ro", "noatime"))
    assert without_error_state(wanted) == wanted
    steps = check_filesystem(filesystem(mounts=(forced,), fstab=known(()))).steps
    (again,) = [step.command for step in steps if step.command.startswith("mount ")]
    assert "emergency_ro" not in again
    assert "rw" in again
