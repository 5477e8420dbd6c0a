"""House style of summaries: every finding of every fixture host has a short one."""

from __future__ import annotations

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.report import Source
from ext4audit.rules import all_rules
from ext4audit.sources.captured import read_snapshot
from support.hosts.stories import HOSTS

FAMILIES = ["compatibility", "durability", "performance"]
LONGEST = 80


@pytest.mark.parametrize("family", FAMILIES)
def test_every_finding_has_a_short_summary(family: str) -> None:
    """One line of at most 80 characters that names no device of its host."""
    rules = tuple(rule for rule in all_rules() if f".rules.{family}." in rule.module)
    found = 0
    for place in sorted(HOSTS.glob("*/snapshot")):
        source, taken_at = read_snapshot(place)
        host = assemble_host(source, taken_at)
        for verdict in audit(Source("snapshot", place.parent.name), host, rules).verdicts:
            for finding in verdict.findings:
                found += 1
                summary = finding.summary
                assert summary, (place, verdict.rule.code)
                assert len(summary) <= LONGEST, (place, summary)
                assert "\n" not in summary, (place, summary)
                assert not any(fs.device in summary for fs in host.filesystems), summary
    assert found
