"""Noise is a bug: what distributions install and clouds boot causes no alarm."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.evidence import need
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Report, ReportSource, exit_code
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules
from ext4audit.sources import Answer, Ask, ReadBytes, RunCommand, Source
from support.examples import sample_of
from support.hosts.evidence_host import denied
from support.hosts.fixture_hosts import HOSTS, captured
from support.hosts.healthy.hosts import HEALTHY
from support.hosts.healthy.systems import EVERY_MKE2FS, Mke2fs
from support.images.mke2fs import needs_e2fsprogs
from support.program import run

EVERY_HOST = pytest.mark.parametrize("name", HEALTHY)
MOST_LINES = 3
NEEDS_ROOT = frozenset({"dumpe2fs", "dmsetup"})
DISKS = {
    "a hard disk": "--rotational --write-cache back --wbt-lat-usec 75000",
    "an SSD": "--non-rotational --write-cache back --wbt-lat-usec 2000",
}


class AsUser(Source):
    """Source that answers as for a user who is not root."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner

    def answer(self, ask: Ask) -> Answer:
        """Refuse devices and device-mapper tables."""
        if isinstance(ask, ReadBytes) or (
            isinstance(ask, RunCommand) and ask.argv[0] in NEEDS_ROOT
        ):
            return denied()
        answer: Answer = self._inner.fetch(ask)
        return answer


def audited(name: str, rules: tuple[Rule, ...], *, as_user: bool = False) -> Report:
    """Audit a healthy host from its snapshot."""
    source, taken_at = captured(f"healthy-{name}")
    host = assemble_host(AsUser(source) if as_user else source, taken_at)
    return audit(ReportSource("snapshot", name), host, rules)


def severe_findings(report: Report) -> list[tuple[str, str]]:
    """Return the findings of medium severity or worse."""
    return [
        (verdict.rule.code, finding.message)
        for verdict in report.verdicts
        for finding in verdict.findings
        if finding.severity.at_least(Severity.MEDIUM)
    ]


def undecided_verdicts(report: Report) -> list[tuple[str, Outcome]]:
    """Return the verdicts that are undetermined or errors."""
    wrong = {Outcome.UNDETERMINED, Outcome.ERROR}
    return [(v.rule.code, v.outcome) for v in report.verdicts if v.outcome in wrong]


@EVERY_HOST
def test_healthy_host_is_clean_and_complete(name: str) -> None:
    """With the default rules nothing is medium, and the exit code is 0."""
    report = audited(name, default_rules())
    assert (severe_findings(report), undecided_verdicts(report), report.host.gaps) == ([], [], ())
    assert exit_code(report, Severity.MEDIUM, allow_incomplete=False) == 0


@EVERY_HOST
def test_healthy_host_is_clean_with_all_rules(name: str) -> None:
    """With --pedantic nothing is medium either, and every rule has a verdict."""
    report = audited(name, all_rules())
    assert (severe_findings(report), undecided_verdicts(report)) == ([], [])


@EVERY_HOST
def test_healthy_host_is_clean_without_root(name: str) -> None:
    """Unreadable evidence leaves a verdict undetermined and causes no finding."""
    report = audited(name, all_rules(), as_user=True)
    assert severe_findings(report) == []
    assert undecided_verdicts(report)


@EVERY_HOST
def test_filesystems_of_a_healthy_host_are_judged(name: str) -> None:
    """Each has a superblock, options in force, and an entry in fstab."""
    report = audited(name, ())
    assert report.host.filesystems
    for fs in report.host.filesystems:
        need(fs.superblock, fs.options, fs.stack, fs.usage)
        entries = need(fs.fstab)
        assert [entry.line.mount_point for entry in entries] == list(fs.mount_points)


def plan(name: str, mke2fs: Mke2fs, configuration: Path, disk: str, *more: str) -> Any:
    """Plan a disk on a healthy host with the defaults of its mke2fs; return the report."""
    configuration.write_text(mke2fs.configuration, encoding="utf-8")
    words = [
        *("--from", str(HOSTS / f"healthy-{name}" / "snapshot"), "--size", "200G", *disk.split()),
        *("--nr-requests", "256", "--max-sectors-kb", "1280", "--mke2fs-conf", str(configuration)),
        *("--target-e2fsprogs", mke2fs.version, "--mount-options", "defaults", "-f", "json"),
    ]
    done = run("plan", *words, *more)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("name", "disk", "pedantic"),
    sample_of(product(EVERY_MKE2FS, DISKS, ("", "--pedantic")), "plans by the defaults"),
)
def test_plan_with_default_options_is_clean(
    name: str, disk: str, pedantic: str, tmp_path: Path
) -> None:
    """A disk made and mounted with the distribution's defaults has no medium finding."""
    more = (pedantic,) if pedantic else ()
    report = plan(name, EVERY_MKE2FS[name], tmp_path / "mke2fs.conf", DISKS[disk], *more)
    found = report["summary"]["findings"]
    assert (found["critical"], found["high"], found["medium"]) == (0, 0, 0)
    assert report["complete"]


@EVERY_HOST
def test_default_scan_of_a_healthy_host_has_few_lines(name: str) -> None:
    """A report has one line for each rule and cause: at most three."""
    verdicts = audited(name, default_rules()).verdicts
    lines = {(v.rule.code, finding.short) for v in verdicts for finding in v.findings}
    assert len(lines) <= MOST_LINES, lines
