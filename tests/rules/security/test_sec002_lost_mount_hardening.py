"""SEC002: nosuid, nodev and noexec that fstab sets but a mount has lost."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf002_fstab_not_active import check as not_active
from ext4audit.rules.security.sec002_lost_mount_hardening import check
from support.builders import filesystem, fstab_entry, host, known, mount, unknown
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase


def verdict(fs: Filesystem, **changes: Any) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs, **changes))


def mounted_with(
    *fstab: str, live: tuple[str, ...] = ("rw", "relatime"), **changes: Any
) -> Filesystem:
    """Build a filesystem whose fstab entry has `fstab`, mounted with the flags `live`."""
    values: dict[str, Any] = {
        "mounts": (mount(flags=live),),
        "fstab": known((fstab_entry(*fstab),)),
    }
    return filesystem(**{**values, **changes})


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (mounted_with("defaults"), Outcome.PASS),
        (mounted_with("nosuid", "nodev", live=("rw", "nosuid", "nodev", "relatime")), Outcome.PASS),
        (mounted_with("nosuid"), Outcome.FAIL),
        (
            mounted_with("defaults", "nodev", "noexec", live=("rw", "nodev", "relatime")),
            Outcome.FAIL,
        ),
        (mounted_with("user", live=("rw", "nosuid", "nodev", "relatime")), Outcome.FAIL),
        # A later option overrides the flags that an earlier one implies.
        (mounted_with("user", "exec", "suid", "dev"), Outcome.PASS),
        (mounted_with("noexec", "exec"), Outcome.PASS),
        (mounted_with("noatime", "commit=30"), Outcome.PASS),
        (mounted_with("ro"), Outcome.PASS),
        (mounted_with("nosuid", mounts=()), Outcome.NOT_APPLICABLE),
        (mounted_with(fstab=known(())), Outcome.NOT_APPLICABLE),
        (mounted_with(fstab=unknown("/etc/fstab")), Outcome.UNDETERMINED),
        (mounted_with("nosuid", options=unknown("options")), Outcome.FAIL),
    ],
)
def test_sec002_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Only a flag that fstab sets can be lost."""
    assert verdict(fs).outcome is outcome


def test_sec002_does_not_judge_a_container() -> None:
    """A container's fstab does not belong to the mounts that it sees."""
    assert verdict(mounted_with("nosuid"), container="docker").outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("fstab", [("nosuid",), ("user",), ("nodev", "noexec")])
def test_drf002_leaves_hardening_flags_to_sec002(fstab: tuple[str, ...]) -> None:
    """One lost flag leads to one finding."""
    fs = mounted_with(*fstab)
    assert judge(not_active, fs, host(fs)).outcome is Outcome.PASS
    assert len(verdict(fs).findings) == 1


def test_sec002_remount_sets_only_the_flags_of_the_mount() -> None:
    """The command repeats the flags of the mount, and no ext4 options."""
    there = mount(flags=("rw", "nosuid", "noatime"), super_options=("rw", "sync", "nobarrier"))
    (finding,) = verdict(mounted_with("nosuid", "nodev", "noexec", mounts=(there,))).findings
    assert finding.severity is Severity.MEDIUM
    assert finding.message == (
        "/data is mounted without nodev, noexec, which /etc/fstab line 7 sets: device nodes "
        "and programs on it can be used."
    )
    assert finding.fact == "/data nodev,noexec"
    (remedy,) = finding.remedies
    quiet = "mount -o remount,bind,"
    assert [(step.phase, step.command) for step in remedy.lines] == [
        (Phase.IMMEDIATE, f"{quiet}rw,nosuid,noatime,nodev,noexec /dev/sda /data"),
        (Phase.VERIFY, "findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx nodev"),
        (Phase.VERIFY, "findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx noexec"),
        (Phase.ROLLBACK, f"{quiet}rw,nosuid,noatime /dev/sda /data"),
    ]


def test_sec002_message_in_singular_and_plural() -> None:
    """The message uses the singular or the plural, and lists three effects in one series."""
    every = ("nosuid", "nodev", "noexec")
    (one,) = verdict(mounted_with("nosuid")).findings
    (three,) = verdict(mounted_with(*every)).findings
    assert one.summary == "mounted without nosuid although fstab sets it"
    assert three.summary == "mounted without nosuid, nodev, noexec although fstab sets them"
    assert three.message.endswith(
        "sets: set-user-ID programs, device nodes and programs on it can be used."
    )


def test_sec002_prints_no_command_for_an_overmounted_mount() -> None:
    """Its mount point leads to the mount on top of it."""
    hidden = mount()._replace(overmounted=True)
    (finding,) = verdict(mounted_with("nosuid", mounts=(hidden,))).findings
    assert finding.remedies == ()


# Flags that were dropped by a remount with both device and directory.
REMEDY = "on this mount again"


def remount_by_device(loop_mount: LoopMount) -> None:
    """Drop the flags: mount(8) does not read fstab if both names are given."""
    run("mount", "-o", "remount,commit=30", loop_mount.device, loop_mount.mount_point)


REMEDY_CASES = (
    RemedyCase(
        name="lost by a remount",
        remedy=REMEDY,
        fstab="nosuid,nodev,noexec,noatime",
        mount="nosuid,nodev,noexec,noatime",
        prepare=remount_by_device,
    ),
    RemedyCase(
        name="nothing else of fstab takes effect",
        remedy=REMEDY,
        fstab="nodev,nosuid,noatime,nobarrier,data=writeback",
        mount="nodev,strictatime,sync",
    ),
    RemedyCase(name="read-only", remedy=REMEDY, fstab="ro,noexec", mount="ro"),
    RemedyCase(name="what user implies", remedy=REMEDY, fstab="user", mount="nosuid,nodev"),
)
