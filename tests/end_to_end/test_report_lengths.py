"""The default report fits a screen: a line that nobody acts on is one too many."""

from __future__ import annotations

import re

import pytest

from ext4audit.engine import audit
from ext4audit.renderers import Page
from ext4audit.renderers.text import render_report
from ext4audit.report import Report, ReportSource
from ext4audit.rules import default_rules
from support.hosts.fixture_hosts import report_of
from support.hosts.healthy.hosts import HEALTHY

WIDTHS = pytest.mark.parametrize("width", [None, 100])


def judged(name: str) -> Report:
    """Audit a fixture host with the default rules."""
    found = report_of(name)
    return audit(found.source, found.host, default_rules())


def twenty_disks() -> Report:
    """Audit a healthy host with twenty copies of its filesystem."""
    host = judged("healthy-debian-12").host
    (first,) = host.filesystems
    disks = tuple(
        first._replace(
            uuid=f"u{n}",
            device=f"/dev/sd{n}",
            mounts=tuple(mount._replace(mount_point=f"/mnt/d{n}") for mount in first.mounts),
        )
        for n in range(1, 21)
    )
    return audit(
        ReportSource("live", "this host"), host._replace(filesystems=disks), default_rules()
    )


def report_lines(report: Report, width: int | None = None, verbosity: int = 0) -> list[str]:
    """Return the lines of a report."""
    return render_report(report, Page("0", "", verbosity=verbosity, width=width)).splitlines()


@WIDTHS
def test_report_of_a_host_with_findings_fits_a_screen(width: int | None) -> None:
    """This includes the remedies' commands and its five findings."""
    lines = report_lines(judged("al2-dioread-nolock-nodelalloc"), width)
    assert len(lines) <= 40
    assert "    mount -o remount,rw,noatime,dioread_lock /dev/vdb1 /data" in lines
    assert re.search(": 1 high, 1 low, 3 info; [0-9]+ checks passed; incomplete.$", lines[-1])


@WIDTHS
def test_report_of_twenty_filesystems_is_as_short_as_of_one(width: int | None) -> None:
    """What they have in common is reported in one line."""
    lines = report_lines(twenty_disks(), width)
    assert len(lines) <= 12
    assert "  20 of 20 filesystems (/mnt/d1 … /mnt/d20)" in " ".join(lines)
    assert lines[-1].startswith("20 filesystems: ")


@pytest.mark.parametrize("name", HEALTHY)
def test_report_of_a_healthy_host_is_a_few_lines(name: str) -> None:
    """One line for each note, between the host's name and the summary."""
    assert len(report_lines(judged(f"healthy-{name}"))) <= 6


@pytest.mark.parametrize("name", ["al2-dioread-nolock-nodelalloc", "lvm-linear-nobarrier"])
def test_verbose_report_is_complete(name: str) -> None:
    """Every message, fact, remedy, trade-off and command of every finding is included."""
    report = report_of(name)
    text = "\n".join(report_lines(report, verbosity=1))
    for finding in report.findings:
        facts = [cited.value for cited in finding.citations]
        commands = [step.command for remedy in finding.remedies for step in remedy.steps]
        advice = [text for r in finding.remedies for text in (r.summary, r.trade_off) if text]
        assert [
            each for each in (finding.message, *facts, *commands, *advice) if each not in text
        ] == []
    passed = [verdict.rule.code for verdict in report.verdicts if verdict.outcome.value == "pass"]
    assert [code for code in passed if f"passed {code} " not in text] == []


def test_disks_of_several_speeds_share_one_line() -> None:
    """For a hard disk, an NVMe disk and an array of twelve, it has the range, worst first."""
    hosts = ["healthy-debian-12", "healthy-ubuntu-24.04", "raid0-12-disks-default-mkfs"]
    every = [fs for name in hosts for fs in judged(name).host.filesystems]
    mixed = judged(hosts[0]).host._replace(filesystems=tuple(every))
    report = audit(ReportSource("live", "this host"), mixed, default_rules())
    (line,) = [each for each in report_lines(report) if "PRF002" in each]
    assert line.startswith("LOW")
    assert "  4 of 4 filesystems (/ (" in line
    assert line.endswith("~0.7 to ~9 s per GiB (120 to 1440 MB/s assumed) (likely)")
