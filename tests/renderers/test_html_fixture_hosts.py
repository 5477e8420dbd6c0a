"""Fixture hosts as HTML: valid pages that show every finding."""

from __future__ import annotations

from itertools import cycle, islice

from ext4audit.renderers import visible
from support.browser.html_page import markup, read, words
from support.hosts.stories import STORIES, report_of, some_stories


@some_stories(__name__)
def test_the_page_of_every_fixture_host_shows_its_findings(story: str) -> None:
    """A strict parser accepts the page, which has the text of each message and each unknown."""
    report = report_of(story)
    shown = words(read(report))
    expected = [finding.message for finding in report.findings]
    expected += [gap.what for verdict in report.verdicts for gap in verdict.unknowns]
    assert all(" ".join(visible(sentence).split()) in shown for sentence in expected)


def test_the_page_of_the_fleet_names_every_fixture_host() -> None:
    """A strict parser accepts the page of all hosts together."""
    shown = words(read(*map(report_of, STORIES)))
    assert not [story for story in STORIES if story not in shown]


def test_a_page_of_204_hosts_has_at_most_3_mb() -> None:
    """Mail servers and browsers accept this size: the size of a host's section is bounded."""
    hosts = [
        (report := report_of(story))._replace(host=report.host._replace(name=f"host{number:03}"))
        for number, story in enumerate(islice(cycle(STORIES), 204))
    ]
    text = markup(*hosts)
    assert len(text.encode()) <= 3_000_000
    assert all(f"host{number:03}" in text for number in range(204))
