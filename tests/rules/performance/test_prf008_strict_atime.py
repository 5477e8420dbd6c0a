"""PRF008: strictatime, which the mount table does not show."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.performance.prf008_strict_atime import check
from support.builders import filesystem, fstab_entry, known, mount, unknown
from support.judging import verdict_on
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

STRICT = mount(flags=("rw",))


verdict_of = partial(verdict_on, check)


def finding_of(**changes: Any) -> Finding:
    """Return the only finding about a filesystem with these facts."""
    (finding,) = verdict_of(filesystem(**{"mounts": (STRICT,), **changes})).findings
    return finding


def commands(finding: Finding, which: int, phase: Phase) -> list[str]:
    """Return a remedy's commands of one phase."""
    return [step.command for step in finding.remedies[which].lines if step.phase is phase]


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.PASS, id="relatime is gentle enough"),
        pytest.param(
            filesystem(mounts=(mount(flags=("rw", "nosuid", "noatime")),)),
            Outcome.PASS,
            id="noatime",
        ),
        pytest.param(
            filesystem(mounts=(mount(flags=("rw",), super_options=("rw", "lazytime")),)),
            Outcome.PASS,
            id="lazytime keeps the times in memory",
        ),
        pytest.param(
            filesystem(mounts=(mount(), mount("/ro", flags=("ro",), root="/x"))),
            Outcome.PASS,
            id="a read-only bind mount",
        ),
        pytest.param(filesystem(mounts=(STRICT,)), Outcome.FAIL, id="strictatime"),
        pytest.param(
            filesystem(mounts=(mount(flags=("rw", "nodiratime")),)), Outcome.FAIL, id="nodiratime"
        ),
        pytest.param(
            filesystem(mounts=(mount(), mount("/b", flags=("rw",), root="/x"))),
            Outcome.FAIL,
            id="one of two mounts",
        ),
        pytest.param(
            filesystem(mounts=(STRICT,), read_only=known(value=True)),
            Outcome.NOT_APPLICABLE,
            id="read-only",
        ),
        pytest.param(filesystem(mounts=(), alive=False), Outcome.NOT_APPLICABLE, id="not mounted"),
        pytest.param(filesystem(mounts=()), Outcome.UNDETERMINED, id="in another namespace"),
        pytest.param(
            filesystem(read_only=unknown("read-only state")), Outcome.UNDETERMINED, id="unread"
        ),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Only a mount with neither relatime nor noatime is a finding; noatime is never required."""
    assert verdict_of(fs).outcome is outcome


def test_severity_and_mount_points_in_the_message() -> None:
    """Access times belong to mounts, not to the superblock."""
    finding = finding_of(mounts=(STRICT, mount("/b", flags=("rw",), mount_id=31)))
    assert (finding.severity, finding.confidence) == (Severity.LOW, Confidence.CONFIRMED)
    assert "/data, /b" in finding.message
    assert commands(finding, 0, Phase.IMMEDIATE)[1] == "mount -o remount,rw,relatime /dev/sda /b"


def test_remedies_change_mount_and_fstab() -> None:
    """Relatime is the default and needs no option; noatime does."""
    finding = finding_of(fstab=known((fstab_entry("strictatime", "errors=continue"),)))
    relatime, noatime = finding.remedies
    words = "strictatime,errors=continue"
    assert f"persistent: fstab 7: {words} -> errors=continue" in step_lines(relatime.steps)
    assert f"persistent: fstab 7: {words} -> errors=continue,noatime" in step_lines(noatime.steps)
    assert commands(finding, 0, Phase.IMMEDIATE) == ["mount -o remount,rw,relatime /dev/sda /data"]
    shown, edited = commands(finding, 0, Phase.VERIFY)
    assert shown == "findmnt -nfd backward -o OPTIONS -M /data | tr , '\\n' | grep -qx relatime"
    assert edited.startswith("sed -n 7p /etc/fstab | ")
    assert "mount -o remount,rw,strictatime /dev/sda /data" in commands(finding, 0, Phase.ROLLBACK)
    assert {relatime.disruption, noatime.disruption} == {Disruption.REMOUNT}


def test_remount_keeps_flags_missing_from_fstab() -> None:
    """The remount repeats nosuid, and does not drop it because fstab lacks it."""
    finding = finding_of(mounts=(mount(flags=("rw", "nosuid")),))
    assert commands(finding, 0, Phase.IMMEDIATE) == [
        "mount -o remount,rw,nosuid,relatime /dev/sda /data"
    ]


@pytest.mark.parametrize(
    "odd",
    [
        mount("/b", flags=("rw",), root="/sub"),
        mount("/b\n", flags=("rw",)),
    ],
)
def test_no_commands_if_a_mount_cannot_be_remounted(odd: Any) -> None:
    """A bind mount of a subdirectory, or a name that a shell word cannot hold, gets only advice."""
    finding = finding_of(mounts=(STRICT, odd))
    assert [remedy.steps for remedy in finding.remedies] == [(), ()]


def test_remedy_without_an_fstab_entry_is_not_persistent() -> None:
    """What mounts it is unknown."""
    finding = finding_of(fstab=known(()))
    assert "It has a mount without an fstab entry" in finding.remedies[0].summary
    assert commands(finding, 0, Phase.PERSISTENT) == []


# Access times become relaxed by a remount, whatever fstab has.
BY_DEFAULT, NEVER = "Remount with relatime", "Remount with noatime"
REMEDY_CASES = (
    RemedyCase("relatime, set by fstab", BY_DEFAULT, mount="strictatime", fstab="strictatime"),
    RemedyCase("relatime, set by hand", BY_DEFAULT, mount="strictatime,nosuid"),
    RemedyCase(
        "noatime, fstab asks for it already",
        NEVER,
        mount="strictatime,noexec",
        fstab="noatime,nodev",
    ),
    RemedyCase(
        "noatime, set by fstab", NEVER, mount="strictatime", fstab="norelatime,errors=continue"
    ),
    RemedyCase("noatime, set by hand", NEVER, mount="strictatime", fstab="defaults"),
)
