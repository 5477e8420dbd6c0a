"""The report: completeness, its findings, and the values of `Outcome`."""

from __future__ import annotations

import pytest

from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.report import Outcome, Report, Source, Verdict
from ext4audit.rule import Rule, Scope
from support.builders import filesystem, host, unknown

LIVE = Source("live", "db1")
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
    """A finding does not make an audit incomplete; an unknown does, also beside a finding."""
    assert Report(LIVE, host(), verdicts).complete is complete


def test_a_gap_of_the_host_makes_the_audit_incomplete() -> None:
    """An unreadable mount table is not a host without filesystems."""
    assert Report(LIVE, host(gaps=(UNKNOWN,)), (verdict(Outcome.PASS),)).complete is False


def test_findings_are_those_of_all_verdicts_in_their_order() -> None:
    """Each finding once, also that of a rule that ended with an unknown or an error."""
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
