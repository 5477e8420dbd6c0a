"""HLT001: recorded errors of a mounted filesystem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import ErrorCounters, Filesystem
from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.finding import Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt001_recorded_errors import check
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    known,
    mount,
    options,
    superblock,
    unknown,
)
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase

TAKEN_AT = 1767323045
"""The time at which the builders' host was audited, 2026-01-02T03:04:05Z."""
DAY = 86400


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def error_counters(
    errors: int, at: int | None = TAKEN_AT - 100 * DAY, **more: Any
) -> ErrorCounters:
    """Build counters whose last error was at this time."""
    last = RecordedError(at, "ext4_lookup", 1805, 12, 0) if errors else None
    warnings = known(more.pop("warnings", 0))
    return ErrorCounters(errors, warnings, last, last, more.pop("code", 5))


def with_recorded_errors(counters: ErrorCounters, **changes: Any) -> Filesystem:
    """Build a filesystem with recorded errors that is still writable."""
    values: dict[str, Any] = {"errors": known(counters), "superblock": unknown("superblock")}
    return filesystem(**{**values, **changes})


def superblock_with_state(state: str) -> Known[Superblock]:
    """Build a superblock with this state."""
    return known(superblock(state=state))


WITHOUT_STATE = known(superblock(state=None), "the ioctl")


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (filesystem(), Outcome.PASS),
        (with_recorded_errors(error_counters(0)), Outcome.UNDETERMINED),
        (with_recorded_errors(error_counters(0), superblock=WITHOUT_STATE), Outcome.UNDETERMINED),
        (
            with_recorded_errors(error_counters(0), superblock=superblock_with_state("not clean")),
            Outcome.PASS,
        ),
        (
            with_recorded_errors(
                error_counters(0), superblock=superblock_with_state("clean with errors")
            ),
            Outcome.FAIL,
        ),
        (
            with_recorded_errors(
                error_counters(0), superblock=superblock_with_state("not clean with errors")
            ),
            Outcome.FAIL,
        ),
        (with_recorded_errors(error_counters(1)), Outcome.FAIL),
        (with_recorded_errors(error_counters(0, warnings=2)), Outcome.FAIL),
        (filesystem(errors=unknown("errors")), Outcome.UNDETERMINED),
        (with_recorded_errors(error_counters(1), alive=False, mounts=()), Outcome.NOT_APPLICABLE),
    ],
)
def test_hlt001_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The counters, readable for everybody, decide; without errors, the superblock's mark does."""
    assert verdict(fs).outcome is outcome


def test_hlt001_finds_an_error_state_without_counters() -> None:
    """The check is verified by the mark, which the kernel writes back at an unmount."""
    (finding,) = verdict(
        with_recorded_errors(
            error_counters(0), superblock=superblock_with_state("clean with errors")
        )
    ).findings
    assert (finding.severity, finding.fact) == (Severity.MEDIUM, "marked")
    assert finding.message.startswith("The superblock is marked with errors, although none is")
    cited = {citation.label: citation.value for citation in finding.citations}
    assert cited == {"errors": "0", "state": "clean with errors"}
    (remedy,) = finding.remedies
    assert [step.command for step in remedy.lines if step.phase is Phase.VERIFY] == [
        "grep -qx 0 /sys/fs/ext4/sda/errors_count",
        "tune2fs -l /dev/sda | grep '^Filesystem state:' | grep -qv 'with errors'",
    ]


def test_hlt001_finds_warnings_and_the_error_state() -> None:
    """Neither hides the other."""
    both = with_recorded_errors(
        error_counters(0, warnings=2), superblock=superblock_with_state("not clean with errors")
    )
    assert [finding.fact for finding in verdict(both).findings] == ["warnings", "marked"]


@pytest.mark.parametrize(
    ("fs", "severity"),
    [
        (with_recorded_errors(error_counters(3, TAKEN_AT - DAY)), Severity.HIGH),
        (with_recorded_errors(error_counters(3, TAKEN_AT - 7 * DAY)), Severity.HIGH),
        (with_recorded_errors(error_counters(3, TAKEN_AT - 7 * DAY - 1)), Severity.MEDIUM),
        (with_recorded_errors(error_counters(3, None)), Severity.HIGH),
        (with_recorded_errors(ErrorCounters(3)), Severity.HIGH),
        (
            with_recorded_errors(
                error_counters(3),
                superblock=known(superblock(last_mounted_at=TAKEN_AT - 101 * DAY)),
            ),
            Severity.HIGH,
        ),
        (
            with_recorded_errors(
                error_counters(3), superblock=known(superblock(last_mounted_at=TAKEN_AT - 99 * DAY))
            ),
            Severity.MEDIUM,
        ),
        (with_recorded_errors(error_counters(0, warnings=1)), Severity.INFO),
    ],
)
def test_hlt001_severity(fs: Filesystem, severity: Severity) -> None:
    """An error of this mount, of the last week or of unknown time is high, an older one medium."""
    (finding,) = verdict(fs).findings
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("age", "severity"),
    [(7 * DAY + 14 * 3600, Severity.HIGH), (7 * DAY + 14 * 3600 + 1, Severity.MEDIUM)],
)
def test_hlt001_severity_where_times_are_local(age: int, severity: Severity) -> None:
    """A time that dumpe2fs printed in an unknown zone can be up to 14 hours from the real one."""
    around = host()._replace(has_local_times=True)
    (finding,) = judge(
        check, with_recorded_errors(error_counters(3, TAKEN_AT - age)), around
    ).findings
    assert finding.severity is severity


def test_hlt001_message_has_time_and_place_of_the_last_error() -> None:
    """The message has the recorded details of the last error."""
    (finding,) = verdict(with_recorded_errors(error_counters(3, TAKEN_AT))).findings
    assert finding.message == (
        "The kernel recorded 3 errors, the last on 2026-01-02T03:04:05Z, in ext4_lookup(), line "
        "1805, about inode 12: metadata may be damaged, and writes can spread the damage."
    )
    assert "(EFSCORRUPTED)" in {c.label: c.value for c in finding.citations}["last error"]


def test_hlt001_message_for_a_single_error() -> None:
    """A single error is not called the last one."""
    (finding,) = verdict(with_recorded_errors(error_counters(1, TAKEN_AT))).findings
    assert finding.message.startswith("The kernel recorded 1 error, on 2026-01-02T03:04:05Z, in ")


def test_hlt001_remedy_checks_the_unmounted_filesystem() -> None:
    """The check refuses to run while the filesystem is in use, and verifies an empty record."""
    (finding,) = verdict(with_recorded_errors(error_counters(1))).findings
    (remedy,) = finding.remedies
    assert [(step.phase, step.command) for step in remedy.lines] == [
        (Phase.IMMEDIATE, "umount /data"),
        (
            Phase.IMMEDIATE,
            "test ! -e /sys/fs/ext4/sda && { e2fsck -f -p /dev/sda || test $? -eq 1; }",
        ),
        (Phase.IMMEDIATE, "mount -t ext4 -o rw,relatime /dev/sda /data"),
        (Phase.VERIFY, "grep -qx 0 /sys/fs/ext4/sda/errors_count"),
    ]


@pytest.mark.parametrize(
    ("mounts", "words"),
    [
        ((mount("/"),), "fsck.mode=force"),
        ((mount("/a"), mount("/b", mount_id=31)), "as soon as it is not mounted anywhere"),
        ((), "as soon as the mount namespace that uses it has unmounted it"),
    ],
)
def test_hlt001_prints_no_commands_if_one_unmount_is_not_enough(
    mounts: tuple[Any, ...], words: str
) -> None:
    """The root is checked at a reboot; for other cases there is advice."""
    (finding,) = verdict(with_recorded_errors(error_counters(1), mounts=mounts)).findings
    (remedy,) = finding.remedies
    assert remedy.steps == ()
    assert words in remedy.summary


def test_hlt001_leaves_the_remedy_to_hlt002_if_writes_have_stopped() -> None:
    """One check cures both, so its commands are printed only once."""
    stopped = with_recorded_errors(
        error_counters(1),
        options=known(options("errors=remount-ro", "emergency_ro")),
        fstab=known((fstab_entry("errors=remount-ro"),)),
    )
    (finding,) = verdict(stopped).findings
    assert "the filesystem refuses writes (HLT002)" in finding.message
    assert [remedy.steps for remedy in finding.remedies] == [()]


# An error that the kernel is made to record, under errors=continue.
REMEDIES_NOT_RUN = (
    "The root is checked by a boot with fsck.mode=force, which is advice: nothing here can be "
    "rebooted. What HLT002 cures has its commands there."
)


def record_an_error(loop_mount: LoopMount) -> None:
    """Make the kernel record an error, as it does for broken metadata."""
    name = loop_mount.device.removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test")


def mark_errors_and_mount(loop_mount: LoopMount) -> None:
    """Mark the superblock without counting errors, as the replay of an aborted journal does."""
    run("debugfs", "-w", "-R", "ssv state 3", loop_mount.device)
    loop_mount.mount()


REMEDY_CASES = (
    RemedyCase(
        name="marked with errors that nothing counts",
        remedy="check it with e2fsck",
        mounted=False,
        prepare=mark_errors_and_mount,
        restores=False,
    ),
    RemedyCase(
        name="mounted by fstab",
        remedy="check it with e2fsck",
        fstab="noatime",
        mount="noatime",
        prepare=record_an_error,
        restores=False,
    ),
    RemedyCase(
        name="mounted as fstab does not say",
        remedy="check it with e2fsck",
        fstab="defaults",
        mount="nosuid,commit=30",
        prepare=record_an_error,
        restores=False,
    ),
    RemedyCase(
        name="without a journal",
        remedy="check it with e2fsck",
        mke2fs=("-O", "^has_journal"),
        prepare=record_an_error,
        restores=False,
    ),
)
