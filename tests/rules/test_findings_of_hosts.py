"""What every rule says of the fixture hosts: one short line, and evidence with its origin."""

from __future__ import annotations

import re
from functools import cache

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.finding import Finding
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from support.hosts.stories import STORIES, captured, every_story, report_of

LONGEST_SUMMARY = 80
MOST_CITATIONS = 4
NAME_OF_A_DEVICE = re.compile(r"/dev/|\b(?:sd[a-z]|[xv]*vd[a-z]|nvme|md|dm-)[0-9]*\b|\d+ [KMGT]iB")
"""A device, or a size: either differs from one filesystem to the next."""
SIZES_OF_THE_RULE = frozenset({"more than 50 GiB are reserved for root"})
"""Summaries with a limit of the rule in it, which is the same for every filesystem."""
WITHOUT_A_FINDING = {"SEC"}
"""Families of rules that no fixture host has a finding of."""


@cache
def reports_of(story: str) -> tuple[Report, Report]:
    """Audit what was mounted on a host, and all filesystems of its disks."""
    source, taken_at = captured(story)
    host = assemble_host(source, taken_at)
    return report_of(story), audit(ReportSource("snapshot", story), host, all_rules())


def findings_of(story: str) -> list[tuple[str, Finding]]:
    """Return the findings of both reports, each with the code of its rule."""
    verdicts = [verdict for report in reports_of(story) for verdict in report.verdicts]
    return [(verdict.rule.code, each) for verdict in verdicts for each in verdict.findings]


@every_story
def test_a_summary_is_one_short_line(story: str) -> None:
    """It names no device and no size, so that equal findings can be grouped."""
    devices = {fs.device for report in reports_of(story) for fs in report.host.filesystems}
    for code, finding in findings_of(story):
        summary = finding.summary
        assert 0 < len(summary) <= LONGEST_SUMMARY, (code, summary)
        assert summary.isprintable(), (code, summary)
        assert not summary.endswith("."), (code, summary)
        assert not any(device in summary for device in devices), (code, summary)
        assert summary in SIZES_OF_THE_RULE or not NAME_OF_A_DEVICE.search(summary), (code, summary)


@every_story
def test_few_citations_are_shown_by_default(story: str) -> None:
    """What only supports the other citations is marked as detail."""
    for code, finding in findings_of(story):
        shown = [citation for citation in finding.citations if not citation.detail]
        labels = [citation.label for citation in shown]
        assert 0 < len(shown) <= MOST_CITATIONS, (code, labels)


@every_story
def test_a_citation_has_a_value_and_an_origin(story: str) -> None:
    """Nobody has to believe evidence that could be from anywhere."""
    verdicts = [verdict for report in reports_of(story) for verdict in report.verdicts]
    cited = [(v.rule.code, each) for v in verdicts for each in v.evidence]
    cited += [(code, each) for code, finding in findings_of(story) for each in finding.citations]
    assert cited
    assert [(code, each) for code, each in cited if not (each.value and each.origin)] == []


def test_the_fixture_hosts_have_findings_to_look_at() -> None:
    """A family without a finding would pass whatever its summaries are."""
    families = {rule.code[:3] for rule in all_rules()}
    assert {code[:3] for story in STORIES for code, _ in findings_of(story)} == (
        families - WITHOUT_A_FINDING
    )
