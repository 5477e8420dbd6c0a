"""HLT002: a filesystem that refuses writes after an error but is not shown as read-only."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.evidence import origin_of
from ext4audit.facts.host import ErrorCounters, Filesystem
from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt002_forced_readonly_hidden import check
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
from support.hosts.fixture_hosts import captured
from support.remedies.case import LoopMount, RemedyCase

MOUNTED_AT = 1767320000
REMOUNT_RO = known(options("errors=remount-ro"))
NO_JOURNAL = frozenset({"extent"})
NO_ERRORS = known(ErrorCounters(0))
MARKED_WITH_ERRORS = known(superblock(state="clean with errors"))


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def error(at: int | None = MOUNTED_AT + 60) -> RecordedError:
    """Build an error at this time."""
    return RecordedError(at, "ext4_lookup", 1805, 12, 0)


def error_counters(at: int | None = MOUNTED_AT + 60) -> ErrorCounters:
    """Build counters of one error at this time."""
    return ErrorCounters(1, known(0), error(at), error(at), 5)


def superblock_at_mount(**changes: Any) -> Superblock:
    """Build the superblock of a filesystem that was mounted before the error."""
    values: dict[str, Any] = {
        "last_mounted_at": MOUNTED_AT,
        "last_checked_at": MOUNTED_AT - 5,
        "error_count": 1,
        "last_error": error(),
    }
    return superblock(**{**values, **changes})


def with_error_since_mount(**changes: Any) -> Filesystem:
    """Build a filesystem with an error since the mount, and errors=remount-ro."""
    values: dict[str, Any] = {
        "errors": known(error_counters()),
        "options": REMOUNT_RO,
        "superblock": known(superblock_at_mount()),
        "journal_errno": known(0),
    }
    return filesystem(**{**values, **changes})


def read_only_superblock(flag: str = "ro", **changes: Any) -> Filesystem:
    """Build an erring filesystem whose superblock is ro, with this flag on its mount."""
    there = mount(flags=(flag, "relatime"), super_options=("ro",))
    values: dict[str, Any] = {"read_only": known(value=True), "mounts": (there,)}
    return with_error_since_mount(**{**values, **changes})


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (filesystem(), Outcome.PASS),
        # Without counted errors, the superblock can still be marked with errors.
        (filesystem(journal_errno=unknown("errno")), Outcome.PASS),
        (filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED),
        (
            filesystem(superblock=MARKED_WITH_ERRORS, journal_errno=unknown("errno")),
            Outcome.UNDETERMINED,
        ),
        (filesystem(superblock=MARKED_WITH_ERRORS), Outcome.PASS),
        (filesystem(superblock=MARKED_WITH_ERRORS, journal_errno=known(-5)), Outcome.FAIL),
        (filesystem(superblock=MARKED_WITH_ERRORS, options=REMOUNT_RO), Outcome.FAIL),
        (read_only_superblock(errors=NO_ERRORS), Outcome.NOT_APPLICABLE),
        (
            read_only_superblock(errors=NO_ERRORS, superblock=unknown("superblock")),
            Outcome.UNDETERMINED,
        ),
        (read_only_superblock(errors=NO_ERRORS, superblock=MARKED_WITH_ERRORS), Outcome.FAIL),
        (filesystem(options=known(options("emergency_ro"))), Outcome.FAIL),
        (filesystem(options=known(options("shutdown"))), Outcome.FAIL),
        (filesystem(mounts=(mount(super_options=("rw", "emergency_ro")),)), Outcome.FAIL),
        (with_error_since_mount(journal_errno=known(-5)), Outcome.FAIL),
        (
            with_error_since_mount(
                journal_errno=known(-5), options=known(options("errors=continue"))
            ),
            Outcome.FAIL,
        ),
        (with_error_since_mount(), Outcome.FAIL),
        (with_error_since_mount(journal_errno=unknown("errno")), Outcome.FAIL),
        (
            with_error_since_mount(superblock=known(superblock_at_mount(features=NO_JOURNAL))),
            Outcome.FAIL,
        ),
        (with_error_since_mount(options=known(options("errors=continue"))), Outcome.PASS),
        (
            with_error_since_mount(
                options=known(options("errors=continue")),
                superblock=known(superblock_at_mount(features=NO_JOURNAL)),
                journal_errno=unknown("errno"),
            ),
            Outcome.PASS,
        ),
        # The counter includes errors from earlier mounts.
        (
            with_error_since_mount(
                errors=known(error_counters(MOUNTED_AT - 60)),
                superblock=known(superblock_at_mount(last_error=error(MOUNTED_AT - 60))),
            ),
            Outcome.PASS,
        ),
        # e2fsck has checked it since then; the counter in memory is not reset.
        (
            with_error_since_mount(
                superblock=known(
                    superblock_at_mount(
                        last_checked_at=MOUNTED_AT + 900, error_count=0, last_error=None
                    )
                )
            ),
            Outcome.PASS,
        ),
        # dumpe2fs did not print the time zone, so both times of the superblock are shifted.
        (
            with_error_since_mount(
                superblock=known(
                    superblock_at_mount(
                        last_mounted_at=MOUNTED_AT + 7200,
                        last_checked_at=MOUNTED_AT + 7000,
                        last_error=error(MOUNTED_AT + 7260),
                    )
                )
            ),
            Outcome.FAIL,
        ),
        (read_only_superblock(), Outcome.FAIL),
        (read_only_superblock(fstab=known((fstab_entry("ro"),))), Outcome.NOT_APPLICABLE),
        (
            read_only_superblock(fstab=known((fstab_entry("noauto"),))),
            Outcome.NOT_APPLICABLE,
        ),
        (read_only_superblock("rw", fstab=known((fstab_entry("noauto"),))), Outcome.FAIL),
        (read_only_superblock(fstab=known(())), Outcome.NOT_APPLICABLE),
        (read_only_superblock("rw", fstab=known(())), Outcome.FAIL),
        (read_only_superblock(fstab=unknown("fstab")), Outcome.UNDETERMINED),
        (read_only_superblock(errors=known(ErrorCounters(0, known(0)))), Outcome.NOT_APPLICABLE),
        (filesystem(alive=False, mounts=()), Outcome.NOT_APPLICABLE),
        (filesystem(errors=unknown("errors")), Outcome.UNDETERMINED),
        (filesystem(mounts=(), options=unknown("options")), Outcome.UNDETERMINED),
        (
            with_error_since_mount(
                superblock=unknown("superblock"), journal_errno=unknown("errno")
            ),
            Outcome.UNDETERMINED,
        ),
        (
            with_error_since_mount(
                options=known(options("errors=continue")), journal_errno=unknown("errno")
            ),
            Outcome.UNDETERMINED,
        ),
        (
            with_error_since_mount(superblock=known(superblock_at_mount(last_mounted_at=None))),
            Outcome.UNDETERMINED,
        ),
        (
            with_error_since_mount(
                errors=known(error_counters(None)),
                superblock=known(superblock_at_mount(last_error=None)),
            ),
            Outcome.UNDETERMINED,
        ),
    ],
)
def test_hlt002_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The evidence decides, not the kernel's version."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(
    ("fs", "cited"),
    [
        (read_only_superblock(), {"superblock": "ro", "fstab options": "defaults"}),
        (
            read_only_superblock(fstab=known((fstab_entry("noatime", "nosuid"),))),
            {"superblock": "ro", "fstab options": "noatime,nosuid"},
        ),
        (read_only_superblock("rw", fstab=known(())), {"superblock": "ro", "mount": "rw,relatime"}),
    ],
)
def test_hlt002_cites_the_rw_option_of_fstab_or_mount(
    fs: Filesystem, cited: dict[str, str]
) -> None:
    """The finding cites the fstab entry as written, or else the flags of the mount."""
    (finding,) = verdict(fs).findings
    found = {citation.label: citation.value for citation in finding.citations}
    assert found.items() >= cited.items()


@pytest.mark.parametrize(
    ("fs", "severity", "confidence"),
    [
        (
            filesystem(options=known(options("emergency_ro"))),
            Severity.CRITICAL,
            Confidence.CONFIRMED,
        ),
        (with_error_since_mount(journal_errno=known(-5)), Severity.CRITICAL, Confidence.CONFIRMED),
        (
            with_error_since_mount(journal_errno=unknown("errno")),
            Severity.CRITICAL,
            Confidence.LIKELY,
        ),
        # Somebody chose remount-ro after an error under errors=continue: it is still writable, but
        # leaves the same traces as a device that went away.
        (with_error_since_mount(), Severity.HIGH, Confidence.POSSIBLE),
        (read_only_superblock(), Severity.CRITICAL, Confidence.CONFIRMED),
        (read_only_superblock("rw", fstab=known(())), Severity.CRITICAL, Confidence.LIKELY),
    ],
)
def test_hlt002_confidence_by_kind_of_evidence(
    fs: Filesystem, severity: Severity, confidence: Confidence
) -> None:
    """A report of the kernel is certain; a comparison of times is not."""
    (finding,) = verdict(fs).findings
    assert (finding.severity, finding.confidence) == (severity, confidence)


def test_hlt002_message_says_that_the_mount_table_hides_it() -> None:
    """The message explains why nobody noticed."""
    (finding,) = verdict(with_error_since_mount(journal_errno=known(-5))).findings
    assert finding.message == (
        "The filesystem refuses writes although it is shown as rw: the journal was aborted with "
        "error -5. Unmount and check it to make it writable again."
    )
    (honest,) = verdict(read_only_superblock("rw")).findings
    assert honest.message.startswith(
        "The filesystem refuses writes: it is read-only, but /etc/fstab line 7 sets rw"
    )


def test_hlt002_possible_finding_suggests_a_test_write() -> None:
    """A test write is better evidence than the times of two events."""
    (finding,) = verdict(with_error_since_mount()).findings
    assert finding.message.startswith(
        "The filesystem may refuse writes although it is shown as rw: errors=remount-ro is in"
    )
    assert [bool(remedy.steps) for remedy in finding.remedies] == [False, True]


def test_hlt002_cites_each_fact_once() -> None:
    """Two lines "last error" with different texts would look like two errors."""
    (finding,) = verdict(with_error_since_mount()).findings
    labels = [cited.label for cited in finding.citations]
    assert len(labels) == len(set(labels))
    times = {cited.label: cited.origin for cited in finding.citations if "time of" in cited.label}
    origin = origin_of(with_error_since_mount().superblock)
    assert times == {"time of the last error": origin, "time of the last mount": origin}


@pytest.mark.parametrize("release", ["5.10", "6.1", "6.12", "7.2"])
def test_hlt002_confirmed_on_every_captured_kernel(release: str) -> None:
    """The kernels report it differently; the snapshots were taken after a real error on each."""
    source, taken_at = captured(f"forced-readonly-{release}")
    on = assemble_host(source, taken_at)
    (finding,) = judge(check, on.filesystems[0], on).findings
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.CONFIRMED)
    assert ("although it is shown as rw" in finding.message) == (release != "5.10")


def test_hlt002_remedy_mounts_without_the_options_of_the_error() -> None:
    """No mount accepts emergency_ro, and a filesystem made read-only by an error is mounted rw."""
    there = mount(super_options=("rw", "errors=remount-ro", "emergency_ro"))
    fs = with_error_since_mount(mounts=(there,), fstab=known(()))
    (finding,) = verdict(fs).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.lines]
    assert "mount -t ext4 -o rw,relatime,errors=remount-ro /dev/sda /data" in commands
    assert commands[-1] == (
        'file=$(mktemp -p /data .ext4audit.XXXXXX) && sync "$file" && rm "$file"'
    )
    (honest,) = verdict(read_only_superblock("rw", fstab=known(()))).findings
    commands = [step.command for remedy in honest.remedies for step in remedy.lines]
    assert "mount -t ext4 -o rw,relatime /dev/sda /data" in commands


def test_hlt002_remedy_never_remounts() -> None:
    """`mount -o remount,rw` succeeds on 6.1 and 6.12 but repairs nothing."""
    (finding,) = verdict(with_error_since_mount(journal_errno=known(-5))).findings
    steps = [step.command for remedy in finding.remedies for step in remedy.lines]
    assert steps
    assert not any("remount" in command for command in steps)


# An error under errors=remount-ro, and a shutdown: a remount undoes neither.
REMEDIES_NOT_RUN = (
    "The root is checked by a boot with fsck.mode=force, which is advice: nothing here can be "
    "rebooted."
)
SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN (include/uapi/linux/ext4.h)."""
WITHOUT_FLUSHING = 2


def stop_by_an_error(loop_mount: LoopMount) -> None:
    """Make the kernel detect an error, and check that writes are refused from then on."""
    name = loop_mount.device.removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test")
    assert_writes_refused(loop_mount)


def shut_down(loop_mount: LoopMount) -> None:
    """Shut the filesystem down, as happens when a device goes away."""
    directory = os.open(loop_mount.mount_point, os.O_RDONLY)
    try:
        fcntl.ioctl(directory, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
    finally:
        os.close(directory)
    assert_writes_refused(loop_mount)


def assert_writes_refused(loop_mount: LoopMount) -> None:
    """Raise AssertionError if a write succeeds."""
    try:
        (loop_mount.mount_point / "probe").write_text("")
    except OSError:
        return
    raise AssertionError("it still writes")


def test_hlt002_error_state_without_counters_is_possible() -> None:
    """The time of the error is unknown, and a test write would show the state."""
    (finding,) = verdict(filesystem(superblock=MARKED_WITH_ERRORS, options=REMOUNT_RO)).findings
    assert (finding.confidence, finding.severity) == (Confidence.POSSIBLE, Severity.HIGH)
    assert "is marked with errors, but counts none" in finding.message
    assert {"errors": "0", "state": "clean with errors"}.items() <= {
        citation.label: citation.value for citation in finding.citations
    }.items()
    assert finding.remedies[0].summary.startswith("Test first")


REMEDY_CASES = (
    RemedyCase(
        name="an error, mounted by fstab",
        remedy="check it with e2fsck",
        fstab="errors=remount-ro,noatime",
        mount="errors=remount-ro,noatime",
        prepare=stop_by_an_error,
        restores=False,
    ),
    RemedyCase(
        name="an error, no fstab entry",
        remedy="check it with e2fsck",
        tune=("-e", "remount-ro"),
        mount="nodev,commit=30",
        prepare=stop_by_an_error,
        restores=False,
    ),
    RemedyCase(
        name="a shutdown",
        remedy="check it with e2fsck",
        mount="nosuid",
        fstab="nosuid",
        prepare=shut_down,
        restores=False,
    ),
)
