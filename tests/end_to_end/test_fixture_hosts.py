"""Whole hosts, judged end to end: snapshot in, report and exit code out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.cli.output import FORMATS
from ext4audit.engine import audit
from ext4audit.finding import Severity
from ext4audit.report import Report, Source
from ext4audit.rules import all_rules
from ext4audit.sources.snapshot import read_snapshot
from support.formats.golden import check_golden
from support.hosts.fixtures import HOSTS

STORIES = sorted(path for path in HOSTS.iterdir() if path.is_dir())


def report_of(story: Path) -> Report:
    """Audit the snapshot of one story with all rules."""
    source, taken_at = read_snapshot(story / "snapshot")
    # Those of the lab are of what was mounted there, and not of all its disks.
    host = assemble_host(source, taken_at, only=take_inventory(source).names)
    return audit(Source("snapshot", story.name), host, all_rules())


@pytest.fixture(scope="module", params=STORIES, ids=lambda story: story.name)
def judged(request: pytest.FixtureRequest) -> tuple[Path, Report]:
    """Audit each story once for all formats."""
    return request.param, report_of(request.param)


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_host_gives_the_expected_report(
    judged: tuple[Path, Report], fmt: str, *, accept: bool
) -> None:
    """The report of a fixture host, in each format, is the one that is kept."""
    check_golden(*judged, fmt, accept=accept)


def test_the_alibaba_cloud_host_is_found_slow_and_not_in_danger() -> None:
    """PRF001 is confirmed and high on an affected kernel; nothing else is as bad."""
    report = report_of(HOSTS / "al2-dioread-nolock-nodelalloc")
    worst = [
        (v.rule.code, f.severity.value, f.confidence.value)
        for v in report.verdicts
        for f in v.findings
        if f.severity.at_least(Severity.MEDIUM)
    ]
    assert worst == [("PRF001", "high", "confirmed")]


def test_the_raid0_host_serves_its_bitmaps_from_three_of_twelve_disks() -> None:
    """LAY001 counts the bitmaps by member as the real array has them."""
    report = report_of(HOSTS / "raid0-12-disks-default-mkfs")
    (fs,) = report.host.filesystems
    assert fs.layout is not None
    loads = [member.bitmaps for member in fs.layout.value.members]  # type: ignore[union-attr]
    assert loads == [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
    (verdict,) = [v for v in report.verdicts if v.rule.code == "LAY001"]
    assert "3 of 12" in verdict.findings[0].message
