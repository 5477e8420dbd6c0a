"""Fixture hosts as HTML: a page without an error that shows every finding."""

from __future__ import annotations

from ext4audit.renderers.shared import visible
from support.hosts.stories import STORIES, every_story, report_of
from support.html_page import read, words


@every_story
def test_the_page_of_every_fixture_host_shows_its_findings(story: str) -> None:
    """A strict reader takes it, and each message and each unknown is in its words."""
    report = report_of(story)
    shown = words(read(report))
    expected = [finding.message for finding in report.findings]
    expected += [gap.what for verdict in report.verdicts for gap in verdict.unknowns]
    assert all(" ".join(visible(sentence).split()) in shown for sentence in expected)


def test_the_page_of_the_fleet_names_every_fixture_host() -> None:
    """A strict reader takes the page of all hosts together."""
    shown = words(read(*map(report_of, STORIES)))
    assert not [story for story in STORIES if story not in shown]
