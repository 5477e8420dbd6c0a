"""The report: completeness, its findings, and the values of `Outcome`."""

from __future__ import annotations

import pytest

from ext4audit.engine import audit
from ext4audit.evidence import CAPTURE_AGAIN, CaptureHint, Unknown, Why, need
from ext4audit.facts.host import ActiveProfile, Filesystem, Host, Profile
from ext4audit.finding import Citation, Confidence, Finding, Severity, Suppression
from ext4audit.report import (
    Outcome,
    Report,
    ReportSource,
    Verdict,
    as_captured,
    exit_code,
    nagios_code,
)
from ext4audit.rule import Rule, RuleOutput, Scope, rule
from support.builders import filesystem, host, unknown

LIVE = ReportSource("live", "db1")
RULE = Rule(
    "DUR901", "made-up", Severity.HIGH, "0.1", (), Scope.HOST, "", "", lambda _fs, _h: iter(())
)
UNKNOWN = unknown("the superblock")
FINDING = Finding("Bad.", Severity.LOW, Confidence.CONFIRMED, (Citation("a", "b", "c"),))


def verdict(outcome: Outcome, **changes: tuple[object, ...]) -> Verdict:
    """Build one verdict of the host."""
    return Verdict(RULE, None, outcome, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "complete"),
    [
        ((), True),
        ((verdict(Outcome.PASS),), True),
        ((verdict(Outcome.NOT_APPLICABLE),), True),
        ((verdict(Outcome.FAIL, findings=(FINDING,)),), True),
        ((verdict(Outcome.UNDETERMINED, unknowns=(UNKNOWN,)),), False),
        ((verdict(Outcome.UNDETERMINED),), False),
        ((verdict(Outcome.ERROR),), False),
        ((verdict(Outcome.FAIL, findings=(FINDING,), unknowns=(UNKNOWN,)),), False),
        ((verdict(Outcome.PASS), verdict(Outcome.ERROR), verdict(Outcome.PASS)), False),
    ],
)
def test_completeness_is_decided_by_the_verdicts(
    verdicts: tuple[Verdict, ...], complete: bool
) -> None:
    """A finding does not make an audit incomplete; an unknown does, even with a finding."""
    assert Report(LIVE, host(), verdicts).complete is complete


def test_a_gap_of_the_host_makes_the_audit_incomplete() -> None:
    """An unreadable mount table is not a host without filesystems."""
    assert Report(LIVE, host(gaps=(UNKNOWN,)), (verdict(Outcome.PASS),)).complete is False


def test_findings_are_those_of_all_verdicts_in_their_order() -> None:
    """Each finding appears once, even if its rule ended with an unknown or an error."""
    second = Finding("Worse.", Severity.HIGH, Confidence.CONFIRMED, ())
    report = Report(
        LIVE,
        host(filesystem()),
        (
            verdict(Outcome.FAIL, findings=(FINDING, second)),
            verdict(Outcome.PASS),
            verdict(Outcome.ERROR, findings=(second,)),
        ),
    )
    assert report.findings == (FINDING, second, second)


def test_the_outcomes_are_those_of_the_contract() -> None:
    """Machine formats print these words."""
    words = ["pass", "fail", "not_applicable", "undetermined", "error"]
    assert [outcome.value for outcome in Outcome] == words


GAP: Unknown = unknown("the superblock")


@rule("DUR901", "made-up", severity=Severity.CRITICAL, since="0.1")
def as_labelled(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find what the label names, then need the superblock."""
    if fs.label:
        yield Finding("Bad.", Severity(fs.label), Confidence.CONFIRMED, ())
    need(fs.superblock)


def report(*severities: str, unknown_superblock: bool = False, gap: bool = False) -> Report:
    """Return the report of a filesystem per severity, and of one that cannot be judged."""
    subjects = [filesystem(label=severity) for severity in severities]
    if unknown_superblock:
        subjects.append(filesystem(superblock=GAP))
    return audit(
        ReportSource("live", "db1"), host(*subjects, gaps=(GAP,) if gap else ()), (as_labelled,)
    )


def set_aside(made: Report, *, known: bool) -> Report:
    """Return the report with all findings marked as known, or else suppressed."""
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
    """Findings at the threshold (1) come before gaps (3), and gaps before clean (0)."""
    threshold = None if fail_on is None else Severity(fail_on)
    assert exit_code(judged, threshold, allow_incomplete=allow_incomplete) == expected


MILD = RULE._replace(severity=Severity.LOW)
UNSEEN = (UNKNOWN,)


@pytest.mark.parametrize(
    ("judged", "fail_on", "expected"),
    [
        (Verdict(MILD, None, Outcome.UNDETERMINED, unknowns=UNSEEN), "medium", 0),
        (Verdict(MILD, None, Outcome.FAIL, (FINDING,), UNSEEN), "medium", 0),
        (Verdict(MILD, None, Outcome.UNDETERMINED, unknowns=UNSEEN), "low", 3),
        (Verdict(MILD, None, Outcome.UNDETERMINED, unknowns=UNSEEN), None, 3),
        (Verdict(RULE, None, Outcome.UNDETERMINED, unknowns=UNSEEN), "high", 3),
        (Verdict(RULE, None, Outcome.UNDETERMINED, unknowns=UNSEEN), "critical", 0),
        (Verdict(RULE, None, Outcome.FAIL, (FINDING,), UNSEEN), "high", 3),
        (Verdict(MILD, None, Outcome.ERROR), "critical", 3),
    ],
)
def test_what_cannot_reach_the_threshold_makes_no_exit_3(
    judged: Verdict, fail_on: str | None, expected: int
) -> None:
    """The report keeps the gap; an exception counts at any threshold, whatever the severity."""
    threshold = None if fail_on is None else Severity(fail_on)
    made = Report(LIVE, host(), (judged,))
    assert exit_code(made, threshold, allow_incomplete=False) == expected
    assert nagios_code((made,), threshold, allow_incomplete=False) == expected
    assert not made.complete


def test_a_gap_of_the_host_can_hide_the_worst() -> None:
    """A filesystem that was not seen has no verdicts, so its worst severity is unknown."""
    made = Report(LIVE, host(gaps=(UNKNOWN,)), (Verdict(MILD, None, Outcome.PASS),))
    assert exit_code(made, Severity.CRITICAL, allow_incomplete=False) == 3


@pytest.mark.parametrize(("rate", "expected"), [("+high", 3), ("high", 3), ("low", 0)])
def test_a_profile_can_raise_what_a_rule_can_reach(rate: str, expected: int) -> None:
    """A rule that is mild by default may be a demand of the product that uses the filesystem."""
    profile = Profile("made-up", "", "", "", rate=((MILD.code, rate),))
    judged = Verdict(MILD, None, Outcome.UNDETERMINED, unknowns=UNSEEN)
    made = Report(LIVE, host()._replace(profiles=(ActiveProfile(profile),)), (judged,))
    assert exit_code(made, Severity.MEDIUM, allow_incomplete=False) == expected


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
    """The status is CRITICAL from high on; findings precede UNKNOWN, and every host counts."""
    threshold = None if fail_on is None else Severity(fail_on)
    assert nagios_code(reports, threshold, allow_incomplete=allow_incomplete) == expected


@pytest.mark.parametrize(
    ("unknown", "hint"),
    [
        (Unknown("x", Why.ABSENT, "", "mount /sys, or run on the host"), CAPTURE_AGAIN),
        (Unknown("x", Why.DENIED, "", "run as root"), CAPTURE_AGAIN),
        (Unknown("x", Why.NOT_CAPTURED), CAPTURE_AGAIN),
        (Unknown("x", Why.UNPARSABLE, "odd"), ""),
        (
            Unknown("x", Why.NOT_CAPTURED, "", CaptureHint("sos report -e md")),
            "sos report -e md",
        ),
        (
            Unknown("x", Why.ABSENT, "", CaptureHint("install the program first")),
            "install the program first",
        ),
        (Unknown("x", Why.DENIED, "", "capture the disk as root"), CAPTURE_AGAIN),
    ],
)
def test_an_archive_gives_no_hint_for_a_live_host(unknown: Unknown, hint: str) -> None:
    """The archive may be old and from another machine; its own hints are kept."""
    assert as_captured(unknown) == Unknown(unknown.what, unknown.why, unknown.detail, hint)
