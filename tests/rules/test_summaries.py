"""House style of summaries: every finding of every fixture host has a short one."""

from __future__ import annotations

from functools import cache

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.report import ReportSource
from ext4audit.rules import all_rules
from support.hosts.stories import STORIES, captured

FAMILIES = ["compatibility", "durability", "performance"]
LONGEST = 80


@cache
def whole_host(story: str) -> Host:
    """Assemble a host with all of its filesystems."""
    source, taken_at = captured(story)
    return assemble_host(source, taken_at)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_finding_has_a_short_summary(family: str) -> None:
    """One line of at most 80 characters that names no device of its host."""
    rules = tuple(rule for rule in all_rules() if f".rules.{family}." in rule.module)
    found = 0
    for story in STORIES:
        host = whole_host(story)
        for verdict in audit(ReportSource("snapshot", story), host, rules).verdicts:
            for finding in verdict.findings:
                found += 1
                summary = finding.summary
                assert summary, (story, verdict.rule.code)
                assert len(summary) <= LONGEST, (story, summary)
                assert "\n" not in summary, (story, summary)
                assert not any(fs.device in summary for fs in host.filesystems), summary
    assert found
