"""The fixture hosts: their snapshots and reports.

A fixture is a directory of fixtures/hosts, named after what is odd about the host.
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
FIXTURE_HOSTS = tuple(sorted(path.name for path in HOSTS.iterdir() if path.is_dir()))

IN_EVERY_FORMAT = {
    "healthy-debian-12": "no finding above low: what a page shows when there is little to show",
    "forced-readonly-6.1": "critical and high findings; the mount table hides the state",
    "md-raid0-hot-member": "a striped array: loads by member, and a remedy that destroys",
    "not-root-md-raid0-hot-member": "the same machine without root: an incomplete audit, exit 3",
}
"""The hosts with an expected report in every format, and why; the others have text and JSON."""

every_fixture_host = pytest.mark.parametrize("fixture", FIXTURE_HOSTS)


def some_fixture_hosts(seed: str) -> pytest.MarkDecorator:
    """Return a mark that runs a test on this run's share of the hosts; CI has all."""
    return pytest.mark.parametrize("fixture", sample_of(FIXTURE_HOSTS, seed))


@cache
def captured(fixture: str) -> tuple[MapSource, str]:
    """Return a source that replays the snapshot of a fixture, and the time of the snapshot."""
    return read_snapshot(HOSTS / fixture / "snapshot")


@cache
def report_of(fixture: str) -> Report:
    """Return the report of the snapshot of a fixture, with all rules."""
    source, taken_at = captured(fixture)
    # Snapshots of the lab contain all disks of the guest; only mounted filesystems are judged.
    host = assemble_host(source, taken_at, only=take_inventory(source).names)
    return audit(ReportSource("snapshot", fixture, fixture), host, all_rules())
