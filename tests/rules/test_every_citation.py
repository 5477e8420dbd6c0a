"""Every citation of every rule says what was read, and where."""

from __future__ import annotations

from support.hosts.stories import every_story, report_of


@every_story
def test_a_citation_has_a_value_and_an_origin(story: str) -> None:
    """Nobody has to believe evidence that could be from anywhere."""
    verdicts = report_of(story).verdicts
    cited = [(v.rule.code, each) for v in verdicts for each in v.evidence]
    cited += [(v.rule.code, each) for v in verdicts for f in v.findings for each in f.citations]
    assert cited
    assert [(code, each) for code, each in cited if not (each.value and each.origin)] == []
