"""The fixture hosts by their stories: their snapshots and reports.

A story is a directory of fixtures/hosts, named after what is odd about the host.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.engine import audit
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources.captured import MapSource, read_snapshot
from support.examples import sample_of

HOSTS = Path(__file__).parents[3] / "fixtures" / "hosts"
STORIES = tuple(sorted(path.name for path in HOSTS.iterdir() if path.is_dir()))

TELLING = {
    "healthy-debian-12": "no finding above low: what a page shows when there is little to show",
    "forced-readonly-6.1": "critical and high findings; the mount table hides the state",
    "md-raid0-hot-member": "a striped array: loads by member, and a remedy that destroys",
    "not-root-md-raid0-hot-member": "the same machine without root: an incomplete audit, exit 3",
}
"""The hosts with an expected report in every format, and why; the others have text and JSON."""

every_story = pytest.mark.parametrize("story", STORIES)


def some_stories(seed: str) -> pytest.MarkDecorator:
    """Return a mark that runs a test on this run's share of the hosts; CI has all."""
    return pytest.mark.parametrize("story", sample_of(STORIES, seed))


@cache
def captured(story: str) -> tuple[MapSource, str]:
    """Return a source that replays the snapshot of a story, and the time of the snapshot."""
    return read_snapshot(HOSTS / story / "snapshot")


@cache
def report_of(story: str) -> Report:
    """Return the report of the snapshot of a story, with all rules."""
    source, taken_at = captured(story)
    # Snapshots of the lab contain all disks of the guest; only mounted filesystems are judged.
    host = assemble_host(source, taken_at, only=take_inventory(source).names)
    return audit(ReportSource("snapshot", story, story), host, all_rules())
