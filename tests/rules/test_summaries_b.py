"""Summaries of findings: one short line, the same for the same cause."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ext4audit import audit_snapshot
from ext4audit.finding import Finding
from ext4audit.report import Report

HOSTS = Path(__file__).parents[2] / "fixtures" / "hosts"
FAMILIES = ("DRF", "CAP", "HLT", "LAY", "SEC", "KRN")
LONGEST = 80
MOST_CITATIONS = 4
NAME_OF_A_DEVICE = re.compile(r"/dev/|\b(?:sd[a-z]|[xv]*vd[a-z]|nvme|md|dm-)[0-9]*\b|\d+ [KMGT]iB")
"""A device, or a size: either differs from one filesystem to the next."""
SIZES_OF_THE_RULE = frozenset({"more than 50 GiB are reserved for root"})
"""Summaries with a limit of the rule in it, which is the same for every filesystem."""


@cache
def report_of(name: str) -> Report:
    """Return the audit of a fixture host."""
    return audit_snapshot(HOSTS / name / "snapshot")


def findings_of(name: str, family: str) -> Iterator[Finding]:
    """Yield the findings of a family on a fixture host."""
    for verdict in report_of(name).verdicts:
        if verdict.rule.code.startswith(family):
            yield from verdict.findings


def host_names() -> list[str]:
    """Return the names of the fixture hosts."""
    return sorted(path.name for path in HOSTS.iterdir())


@pytest.mark.parametrize("name", host_names())
@pytest.mark.parametrize("family", FAMILIES)
def test_a_summary_is_one_short_line(family: str, name: str) -> None:
    """It names no device and no size, so that equal findings can be grouped."""
    for finding in findings_of(name, family):
        assert 0 < len(finding.summary) <= LONGEST, finding.message
        assert finding.summary.isprintable()
        assert not finding.summary.endswith(".")
        is_of_the_rule = finding.summary in SIZES_OF_THE_RULE
        assert is_of_the_rule or not NAME_OF_A_DEVICE.search(finding.summary), finding.summary


@pytest.mark.parametrize("name", host_names())
@pytest.mark.parametrize("family", FAMILIES)
def test_few_citations_are_shown_by_default(family: str, name: str) -> None:
    """What only supports the other citations is marked as detail."""
    for finding in findings_of(name, family):
        shown = [citation for citation in finding.citations if not citation.detail]
        assert 0 < len(shown) <= MOST_CITATIONS, [citation.label for citation in shown]


@pytest.mark.parametrize("family", [each for each in FAMILIES if each != "SEC"])
def test_the_fixture_hosts_have_findings_to_look_at(family: str) -> None:
    """A family without a finding would pass whatever its summaries are; SEC has none here."""
    assert any(any(findings_of(name, family)) for name in host_names())
