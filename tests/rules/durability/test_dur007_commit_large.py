from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur007_commit_large import check
from support.builders import filesystem, fstab_entry, known, mount, options, unknown
from support.judging import only_finding, verdict_on
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_commit_interval(seconds: object, place: str = "/data", **changes: Any) -> Filesystem:
    """Build a filesystem with this interval in force, which its fstab entry also sets."""
    word = f"commit={seconds}"
    values = {"fstab": known((fstab_entry(word, mount_point=place),)), **changes}
    return filesystem(options=known(options(word)), mounts=(mount(place),), **values)


@pytest.mark.parametrize(
    ("seconds", "place", "severity"),
    [
        (31, "/data", Severity.INFO),
        (60, "/", Severity.INFO),
        (61, "/data", Severity.LOW),
        (300, "/", Severity.LOW),
        (301, "/data", Severity.LOW),
        (301, "/", Severity.MEDIUM),
        (600, "/var/lib/postgresql", Severity.MEDIUM),
        (600, "/var/lib/postgresql.old", Severity.LOW),
    ],
)
def test_severity_by_interval_and_mount_point(seconds: int, place: str, severity: Severity) -> None:
    """The root and databases have the most to lose."""
    finding = finding_of(with_commit_interval(seconds, place))
    assert finding.severity is severity
    assert f"a crash loses up to {seconds} s" in finding.message


@pytest.mark.parametrize("seconds", [1, 5, 30])
def test_intervals_up_to_30_seconds_pass(seconds: int) -> None:
    """By default, dirty data may stay in memory for 30 seconds anyway."""
    verdict = verdict_of(with_commit_interval(seconds))
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence[0].value == f"commit={seconds}"


def test_commit_0_is_the_default_and_passes() -> None:
    """The kernel treats commit=0 as 5."""
    assert verdict_of(with_commit_interval(0)).outcome is Outcome.PASS


def test_read_only_mount_is_info() -> None:
    """Nothing can be lost until it is writable."""
    assert (
        finding_of(with_commit_interval(900, read_only=known(value=True))).severity is Severity.INFO
    )


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(options=unknown("options")),
        filesystem(options=known(options(complete=False))),
        with_commit_interval("$(reboot)"),
        with_commit_interval("²"),
        with_commit_interval("9" * 5000),
    ],
    ids=["unread", "not shown", "hostile", "a digit that is not a number", "too many digits"],
)
def test_unknown_interval_is_undetermined(fs: Filesystem) -> None:
    """A value that no kernel prints is not judged."""
    assert verdict_of(fs).outcome is Outcome.UNDETERMINED


def test_unmounted_filesystem_is_not_applicable() -> None:
    """A filesystem has options in force only while the kernel has it mounted."""
    assert verdict_of(filesystem(alive=False, mounts=())).outcome is Outcome.NOT_APPLICABLE


def test_remedy_remounts_and_edits_fstab() -> None:
    """The default needs no option in fstab."""
    (remedy,) = finding_of(with_commit_interval(600)).remedies
    immediate = [step.command for step in remedy.lines if step.phase is Phase.IMMEDIATE]
    assert immediate == ["mount -o remount,rw,relatime,commit=5 /dev/sda /data"]
    assert "persistent: fstab 7: commit=600 -> defaults" in step_lines(remedy.steps)
    assert remedy.disruption is Disruption.REMOUNT


def test_it_is_off_by_default() -> None:
    """Laptops and flash storage have good reasons for a long interval."""
    assert not check.default


# commit=5 by a remount, and removed from wherever the interval was set.
SUMMARY = "Set the default of 5 seconds"

REMEDY_CASES = (
    RemedyCase(name="by fstab", remedy=SUMMARY, fstab="commit=600", mount="commit=600"),
    RemedyCase(
        name="by the superblock's string", remedy=SUMMARY, tune=("-E", "mount_opts=commit=60")
    ),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="nodev,commit=60"),
)
