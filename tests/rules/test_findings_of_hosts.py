"""Findings of every rule on the fixture hosts: a short summary, and evidence with an origin."""

from __future__ import annotations

import re
from functools import cache

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.finding import Finding
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from support.hosts.fixture_hosts import FIXTURE_HOSTS, captured, every_fixture_host, report_of

LONGEST_SUMMARY = 80
MOST_CITATIONS = 4
NAME_OF_A_DEVICE = re.compile(r"/dev/|\b(?:sd[a-z]|[xv]*vd[a-z]|nvme|md|dm-)[0-9]*\b|\d+ [KMGT]iB")
"""A device or a size, which differ between filesystems."""
SIZES_OF_THE_RULE = frozenset({"more than 50 GiB are reserved for root"})
"""Summaries that state a limit of the rule, which is the same for every filesystem."""
FAMILIES_WITHOUT_FINDINGS = {"SEC"}
"""Families of rules without a finding on any fixture host."""


@cache
def reports_of(fixture: str) -> tuple[Report, Report]:
    """Audit the mounted filesystems of a host, and again all filesystems on its disks."""
    source, taken_at = captured(fixture)
    host = assemble_host(source, taken_at)
    return report_of(fixture), audit(ReportSource("snapshot", fixture), host, all_rules())


def findings_of(fixture: str) -> list[tuple[str, Finding]]:
    """Return the findings of both reports, each with its rule's code."""
    verdicts = [verdict for report in reports_of(fixture) for verdict in report.verdicts]
    return [(verdict.rule.code, each) for verdict in verdicts for each in verdict.findings]


@every_fixture_host
def test_summary_is_one_short_line(fixture: str) -> None:
    """The summary names no device and no size, so that equal findings can be grouped."""
    devices = {fs.device for report in reports_of(fixture) for fs in report.host.filesystems}
    for code, finding in findings_of(fixture):
        summary = finding.summary
        assert 0 < len(summary) <= LONGEST_SUMMARY, (code, summary)
        assert summary.isprintable(), (code, summary)
        assert not summary.endswith("."), (code, summary)
        assert not any(device in summary for device in devices), (code, summary)
        assert summary in SIZES_OF_THE_RULE or not NAME_OF_A_DEVICE.search(summary), (code, summary)


@every_fixture_host
def test_few_citations_are_shown_by_default(fixture: str) -> None:
    """Citations that only support others are marked as detail."""
    for code, finding in findings_of(fixture):
        shown = [citation for citation in finding.citations if not citation.detail]
        labels = [citation.label for citation in shown]
        assert 0 < len(shown) <= MOST_CITATIONS, (code, labels)


@every_fixture_host
def test_citations_have_value_and_origin(fixture: str) -> None:
    """A citation without an origin could not be verified."""
    verdicts = [verdict for report in reports_of(fixture) for verdict in report.verdicts]
    cited = [(v.rule.code, each) for v in verdicts for each in v.evidence]
    cited += [(code, each) for code, finding in findings_of(fixture) for each in finding.citations]
    assert cited
    assert [(code, each) for code, each in cited if not (each.value and each.origin)] == []


def test_fixture_hosts_have_findings_of_every_family() -> None:
    """Without a finding, a family would pass the tests above whatever its summaries are."""
    families = {rule.code[:3] for rule in all_rules()}
    assert {code[:3] for fixture in FIXTURE_HOSTS for code, _ in findings_of(fixture)} == (
        families - FAMILIES_WITHOUT_FINDINGS
    )
