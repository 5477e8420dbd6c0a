"""Grouping of findings by cause."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.finding import Confidence, Finding, Severity, Suppression
from ext4audit.renderers.shared.subjects import causes, causes_set_aside
from ext4audit.report import Report
from support.formats.sample_reports import critical_report

SUPPRESSION = Suppression("Replaced in spring")
SLOW_FINDING = Finding("sda is slow.", Severity.LOW, Confidence.LIKELY, (), summary="slow")


def with_findings(*found: Finding) -> Report:
    """Return a report with two verdicts of one rule, on a filesystem and on the host."""
    report = critical_report()
    first = report.verdicts[0]
    half = len(found) // 2
    verdicts = (
        first._replace(findings=found[:half], filesystem_id=report.host.filesystems[0].id),
        first._replace(findings=found[half:], filesystem_id=None),
    )
    return report._replace(verdicts=verdicts)


@pytest.mark.parametrize(
    ("change", "entries"),
    [
        ({}, [2]),
        ({"message": "sdb is slow."}, [2]),
        ({"citations": ()}, [2]),
        ({"summary": "slower"}, [1, 1]),
        ({"summary": ""}, [1, 1]),
        ({"severity": Severity.HIGH}, [1, 1]),
        ({"confidence": Confidence.POSSIBLE}, [1, 1]),
        ({"suppression": SUPPRESSION}, [1]),
        ({"known": True}, [1]),
    ],
)
def test_findings_of_one_cause_are_one_entry(change: dict[str, Any], entries: list[int]) -> None:
    """Findings with the same rule, severity, confidence and short text have one cause."""
    found = causes(with_findings(SLOW_FINDING, SLOW_FINDING._replace(**change)))
    assert [len(each.found) for each in found] == entries


def test_worst_cause_is_first() -> None:
    """The order does not depend on the order of the verdicts."""
    bad = SLOW_FINDING._replace(severity=Severity.CRITICAL)
    assert [each.first for each in causes(with_findings(SLOW_FINDING, bad))] == [bad, SLOW_FINDING]


def test_suppressed_and_known_findings_are_separate() -> None:
    """A suppressed finding and a known one are separate entries."""
    known, suppressed = (
        SLOW_FINDING._replace(known=True),
        SLOW_FINDING._replace(suppression=SUPPRESSION),
    )
    report = with_findings(known, suppressed)
    assert causes(report) == ()
    assert [each.first for each in causes_set_aside(report)] == [known, suppressed]


def test_subject_with_two_findings_is_named_once() -> None:
    """Two lines of fstab are two findings on one host."""
    report = with_findings(SLOW_FINDING, SLOW_FINDING._replace(fact="a"))._replace()
    on_host = report._replace(
        verdicts=(report.verdicts[1]._replace(findings=(SLOW_FINDING, SLOW_FINDING)),)
    )
    (cause,) = causes(on_host)
    assert (len(cause.found), cause.filesystems) == (2, (None,))
