from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.host import ErrorCounters, Filesystem
from ext4audit.facts.mount import Provenance
from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.finding import Disruption, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur006_errors_continue import check
from ext4audit.rules.health.hlt001_recorded_errors import check as recorded_errors
from ext4audit.rules.shared.quantities import DAY_SECONDS, seconds_since_1970
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
from support.judging import only_finding, verdict_on
from support.options.evidence import resolve
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

READ_ONLY = "errors=remount-ro"


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def commands(fs: Filesystem, *phases: Phase) -> list[str]:
    """Return the commands of the only remedy."""
    (remedy,) = finding_of(fs).remedies
    return [step.command for step in remedy.lines if step.phase in (phases or tuple(Phase))]


@pytest.mark.parametrize(
    "place", ["/data", "/", "/home", "/var/lib/docker", "/var/lib/mysql-files"]
)
def test_default_of_mke2fs_is_info(place: str) -> None:
    """Every filesystem made without -e has it, and no database is visible here."""
    finding = finding_of(filesystem(mounts=(mount(place),)))
    assert finding.severity is Severity.INFO
    assert finding.summary.endswith("metadata error (default)")


@pytest.mark.parametrize("token", ["errors=remount-r", "errors=c", "errors="])
def test_truncated_value_does_not_pass(token: str) -> None:
    """Truncated evidence does not show the behaviour on errors."""
    verdict = verdict_of(filesystem(options=known(options(token))))
    assert verdict.outcome is Outcome.UNDETERMINED
    assert repr(token) in verdict.unknowns[0].detail


@pytest.mark.parametrize(
    ("place", "severity", "words", "summary"),
    [
        (
            "/var/lib/postgresql",
            Severity.MEDIUM,
            "on the data directory of a database",
            "on a database",
        ),
        (
            "/var/lib/mysql/data",
            Severity.MEDIUM,
            "on the data directory of a database",
            "on a database",
        ),
        (
            "/var/lib/kubelet/pods/1/volumes/a/mount",
            Severity.LOW,
            "on a volume of an orchestrator",
            "on volumes",
        ),
    ],
)
def test_severity_on_databases_and_volumes(
    place: str, severity: Severity, words: str, summary: str
) -> None:
    """The mount point shows the purpose of the filesystem."""
    finding = finding_of(filesystem(mounts=(mount(place),)))
    assert finding.severity is severity
    assert words in finding.message
    assert finding.summary.endswith(f"metadata error, {summary}")


def test_volumes_of_a_host_share_one_summary() -> None:
    """The report has one entry for all volumes."""
    places = (f"/var/lib/kubelet/pods/{number}/volumes/a/mount" for number in range(3))
    summaries = {finding_of(filesystem(mounts=(mount(place),))).summary for place in places}
    assert summaries == {
        "errors=continue: the kernel keeps writing after a metadata error, on volumes"
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"errors": known(ErrorCounters(errors=3), "/sys/fs/ext4/sda")},
        {"errors": unknown("errors"), "superblock": known(superblock(error_count=3), "dumpe2fs")},
    ],
    ids=["kernel", "superblock"],
)
def test_recorded_errors_raise_the_severity(changes: dict[str, Any]) -> None:
    """The filesystem is being written to despite the errors."""
    finding = finding_of(filesystem(**changes))
    assert finding.severity is Severity.HIGH
    assert finding.message.endswith("it has already recorded 3 errors.")
    assert finding.summary.endswith("metadata error, and errors are recorded")
    assert ("errors recorded", "3") in [(each.label, each.value) for each in finding.citations]


@pytest.mark.parametrize(
    ("days", "severity"), [(100, Severity.MEDIUM), (8, Severity.MEDIUM), (6, Severity.HIGH)]
)
def test_severity_with_an_old_error_equals_that_of_hlt001(days: int, severity: Severity) -> None:
    """Rated higher, the setting was listed above the damage, which has to be checked first."""
    around = host(filesystem())
    now = seconds_since_1970(around.taken_at)
    assert now is not None
    last = RecordedError(now - days * DAY_SECONDS, "ext4_lookup", 1, 0, 0)
    fs = filesystem(errors=known(ErrorCounters(errors=3, last=last)))
    assert finding_of(fs).severity is severity
    (record,) = judge(recorded_errors, fs, host(fs)).findings
    assert record.severity is severity


@pytest.mark.parametrize(
    ("read", "gaps"),
    [
        (unknown("superblock"), ["superblock"]),
        # The ioctl for unprivileged users returns no times.
        (known(superblock(block_bytes=None)), ["time of the last mount"]),
        (known(superblock()), []),
    ],
)
def test_error_with_unknown_time_may_be_of_this_mount(
    read: Evidence[Superblock], gaps: list[str]
) -> None:
    """An error of this mount would be high."""
    last = RecordedError(1, "ext4_lookup", 1, 0, 0)
    fs = filesystem(errors=known(ErrorCounters(errors=3, last=last)), superblock=read)
    assert [gap.what for gap in verdict_of(fs).unknowns] == gaps
    assert [gap.what for gap in judge(recorded_errors, fs, host(fs)).unknowns] == gaps


@pytest.mark.parametrize("token", [READ_ONLY, "errors=panic"])
def test_remount_ro_and_panic_pass(token: str) -> None:
    """Debian's installer writes remount-ro into the root's fstab entry; panic is deliberate."""
    verdict = verdict_of(filesystem(options=known(options(token))))
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence[0].value == token


@pytest.mark.parametrize(
    ("fs", "note"),
    [
        (filesystem(alive=False, mounts=()), "it is not mounted"),
        (filesystem(read_only=known(value=True)), "read-only"),
        (
            filesystem(errors=known(ErrorCounters(errors=3)), journal_errno=known(-5)),
            "see HLT002",
        ),
    ],
)
def test_read_only_filesystem_is_not_applicable(fs: Filesystem, note: str) -> None:
    """Errors cannot spread."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert note in (verdict.note or "")


@pytest.mark.parametrize("evidence", [unknown("options"), known(options(complete=False))])
def test_option_missing_from_the_mount_table_is_undetermined(evidence: Any) -> None:
    """The unread superblock holds the behaviour on errors."""
    assert verdict_of(filesystem(options=evidence)).outcome is Outcome.UNDETERMINED


def test_plans_are_not_applicable() -> None:
    """The default of mke2fs is not a mistake of a plan."""
    assert check.default
    assert not check.in_plans


def test_remedy_sets_the_superblock_if_fstab_has_no_errors_option() -> None:
    """A rescue system then mounts it in the same way."""
    assert commands(filesystem()) == [
        "mount -o remount,rw,relatime,errors=remount-ro /dev/sda /data",
        "tune2fs -e remount-ro /dev/sda",
        "grep -qx errors=remount-ro /proc/fs/ext4/sda/options",
        "tune2fs -l /dev/sda | grep -qx 'Errors behavior: *Remount read-only'",
        "tune2fs -e continue /dev/sda",
        "mount -o remount,rw,relatime,errors=continue /dev/sda /data",
    ]


def test_remedy_edits_fstab_if_it_has_an_errors_option() -> None:
    """The fstab option overrides the superblock."""
    fs = filesystem(
        options=known(options("errors=continue")),
        fstab=known((fstab_entry("noatime", "errors=continue"),)),
    )
    (remedy,) = finding_of(fs).remedies
    assert [line for line in step_lines(remedy.lines) if line.startswith("persistent")] == [
        "persistent: fstab 7: noatime,errors=continue -> noatime,errors=remount-ro"
    ]


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(fstab=known((fstab_entry("errors=panic"),))),
        filesystem(
            superblock=known(superblock(errors="panic")),
            options=known(resolve(table="rw,errors=continue", on_disk=superblock(errors="panic"))),
        ),
    ],
    ids=["fstab", "superblock"],
)
def test_configured_panic_gets_advice_only(fs: Filesystem) -> None:
    """It stops the writes too, and somebody chose it; no test may run its commands."""
    (remedy,) = finding_of(fs).remedies
    assert remedy.summary.startswith("Stop the host at the first error (errors=panic)")
    assert remedy.steps == ()


def test_manual_mount_is_only_remounted() -> None:
    """The superblock is already right."""
    fs = filesystem(
        options=known(options("errors=continue")),
        superblock=known(superblock(errors="remount-ro")),
        fstab=known(()),
    )
    assert not any("tune2fs -e" in command for command in commands(fs))


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(mounts=()),
        filesystem(superblock=known(superblock(mount_option_string="errors=continue"))),
        filesystem(
            options=known(options(hidden=["errors=continue"], set_by=Provenance.SUPERBLOCK_STRING)),
            superblock=unknown("superblock"),
        ),
    ],
    ids=["another namespace", "string", "string not read"],
)
def test_advice_only_if_no_command_is_certain(fs: Filesystem) -> None:
    """A string in the superblock overrides the field; another namespace is out of reach."""
    (remedy,) = finding_of(fs).remedies
    assert (remedy.steps, remedy.disruption) == ((), Disruption.REMOUNT)
    assert ("overrides this field" in remedy.summary) == bool(fs.mounts)


def test_remedy_names_rootflags() -> None:
    """No command edits the boot loader's configuration."""
    fs = filesystem(mounts=(mount("/"),))
    finding = finding_of(fs, kernel_arguments=known(("rootflags=errors=continue",)))
    assert "Correct rootflags=" in finding.remedies[0].summary


# errors=remount-ro by a remount, made permanent in the superblock or in fstab.
SUMMARY = "Stop writing at the first error"

REMEDY_CASES = (
    RemedyCase(name="by the superblock", remedy=SUMMARY, fstab="defaults"),
    RemedyCase(name="with mmp", remedy=SUMMARY, mke2fs=("-O", "mmp"), fstab="defaults"),
    RemedyCase(name="no fstab entry", remedy=SUMMARY, mount="nosuid"),
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        tune=("-e", "remount-ro"),
        fstab="noatime,errors=continue",
        mount="noatime,errors=continue",
    ),
    RemedyCase(
        name="by hand",
        remedy=SUMMARY,
        tune=("-e", "remount-ro"),
        fstab="defaults",
        mount="errors=continue",
    ),
)
