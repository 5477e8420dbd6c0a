"""Fixture hosts as HTML: valid pages that show every finding."""

from __future__ import annotations

from itertools import cycle, islice

from ext4audit.renderers import visible
from support.browser.html_page import markup, rendered, text_of
from support.hosts.fixture_hosts import FIXTURE_HOSTS, report_of, some_fixture_hosts


@some_fixture_hosts(__name__)
def test_the_page_of_every_fixture_host_shows_its_findings(fixture: str) -> None:
    """A strict parser accepts the page, which has the text of each message and each unknown."""
    report = report_of(fixture)
    shown = text_of(rendered(report))
    expected = [finding.message for finding in report.findings]
    expected += [gap.what for verdict in report.verdicts for gap in verdict.unknowns]
    assert all(" ".join(visible(sentence).split()) in shown for sentence in expected)


def test_the_page_of_the_fleet_names_every_fixture_host() -> None:
    """A strict parser accepts the page of all hosts together."""
    shown = text_of(rendered(*map(report_of, FIXTURE_HOSTS)))
    assert not [fixture for fixture in FIXTURE_HOSTS if fixture not in shown]


def test_a_page_of_204_hosts_has_at_most_3_mb() -> None:
    """Mail servers and browsers accept this size: the size of a host's section is bounded."""
    hosts = [
        (report := report_of(fixture))._replace(host=report.host._replace(name=f"host{number:03}"))
        for number, fixture in enumerate(islice(cycle(FIXTURE_HOSTS), 204))
    ]
    text = markup(*hosts)
    assert len(text.encode()) <= 3_000_000
    assert all(f"host{number:03}" in text for number in range(204))
