"""Exit codes: the contract's table, for a report and for the plugin of Nagios."""

from __future__ import annotations

import pytest

from ext4audit.engine import audit
from ext4audit.evidence import Unknown, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity, Suppression
from ext4audit.policy.exit_codes import exit_code, nagios_code
from ext4audit.report import Report, Source
from ext4audit.rule import RuleOutput, rule
from support.builders import filesystem, host, unknown

GAP: Unknown = unknown("the superblock")


@rule("DUR901", "made-up", severity=Severity.CRITICAL, since="0.1")
def as_labelled(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find what the label names, then need the superblock."""
    if fs.label:
        yield Finding("Bad.", Severity(fs.label), Confidence.CONFIRMED, ())
    need(fs.superblock)


def report(*severities: str, unknown_superblock: bool = False, gap: bool = False) -> Report:
    """Audit a filesystem for each severity, and one that cannot be judged."""
    subjects = [filesystem(label=severity) for severity in severities]
    if unknown_superblock:
        subjects.append(filesystem(superblock=GAP))
    return audit(Source("live", "db1"), host(*subjects, gaps=(GAP,) if gap else ()), (as_labelled,))


def set_aside(made: Report, *, known: bool) -> Report:
    """Return the report with all findings known, or suppressed."""
    changes = {"known": True} if known else {"suppression": Suppression("so")}
    verdicts = [
        v._replace(findings=tuple(f._replace(**changes) for f in v.findings)) for v in made.verdicts
    ]
    return made._replace(verdicts=tuple(verdicts))


@pytest.mark.parametrize(
    ("judged", "fail_on", "allow_incomplete", "expected"),
    [
        (report(), "medium", False, 0),
        (report("medium"), "medium", False, 1),
        (report("low"), "medium", False, 0),
        (report("low"), "low", False, 1),
        (report("info"), "low", False, 0),
        (report("info"), "info", False, 1),
        (report("critical"), "critical", False, 1),
        (report("high"), "critical", False, 0),
        (report("low", "critical"), "high", False, 1),
        (report("critical"), None, False, 0),
        (report(unknown_superblock=True), "medium", False, 3),
        (report(unknown_superblock=True), "medium", True, 0),
        (report(gap=True), "medium", False, 3),
        (report(gap=True), "medium", True, 0),
        (report("low", unknown_superblock=True), "medium", False, 3),
        (report("high", unknown_superblock=True), "medium", False, 1),
        (report("high", unknown_superblock=True), "medium", True, 1),
        (report("high", gap=True), "critical", False, 3),
        (report("critical", unknown_superblock=True), None, False, 3),
        (report("critical", unknown_superblock=True), None, True, 0),
        (set_aside(report("critical"), known=True), "info", False, 0),
        (set_aside(report("critical"), known=False), "info", False, 0),
        (set_aside(report("critical", unknown_superblock=True), known=False), "info", False, 3),
    ],
)
def test_one_precedes_three_and_three_precedes_zero(
    judged: Report, fail_on: str | None, allow_incomplete: bool, expected: int
) -> None:
    """Findings at the threshold, then gaps, then clean; the contract's table."""
    threshold = None if fail_on is None else Severity(fail_on)
    assert exit_code(judged, threshold, allow_incomplete=allow_incomplete) == expected


@pytest.mark.parametrize(
    ("reports", "fail_on", "allow_incomplete", "expected"),
    [
        ([report()], "medium", False, 0),
        ([report("medium")], "medium", False, 1),
        ([report("low")], "medium", False, 0),
        ([report("low")], "low", False, 1),
        ([report("high")], "medium", False, 2),
        ([report("high")], "critical", False, 0),
        ([report("critical")], None, False, 0),
        ([report(unknown_superblock=True)], "medium", False, 3),
        ([report(unknown_superblock=True)], "medium", True, 0),
        ([report("medium", unknown_superblock=True)], "medium", False, 1),
        ([report("high", gap=True)], "medium", False, 2),
        ([report("medium"), report("critical"), None], "medium", False, 2),
        ([report("medium"), None], "medium", False, 1),
        ([report(), None], "medium", False, 3),
        ([report(), None], "medium", True, 0),
        ([None], "medium", False, 3),
        ([set_aside(report("critical"), known=False)], "info", False, 0),
        ([set_aside(report("critical"), known=True)], "info", False, 0),
    ],
)
def test_nagios_has_codes_of_its_own(
    reports: list[Report | None], fail_on: str | None, allow_incomplete: bool, expected: int
) -> None:
    """OK, WARNING, CRITICAL from high on; UNKNOWN hides no finding, and every host counts."""
    threshold = None if fail_on is None else Severity(fail_on)
    assert nagios_code(reports, threshold, allow_incomplete=allow_incomplete) == expected
