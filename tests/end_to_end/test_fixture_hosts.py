"""Whole hosts, judged end to end: from a snapshot to a report and exit code."""

from __future__ import annotations

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.cli.output import FORMATS
from ext4audit.finding import Severity
from ext4audit.renderers import Audited, sarif
from ext4audit.rules import all_rules
from ext4audit.sources.snapshot.writing import RecordingSource
from support.formats.golden import FOR_EVERY_HOST, STORED_REPORTS, check_golden, stored_descriptors
from support.hosts.fixture_hosts import FIXTURE_HOSTS, HOSTS, IN_EVERY_FORMAT, captured, report_of

FLEET = HOSTS.parent / "fleets" / "telling-hosts-and-one-unread"
FLEET_FORMATS = [fmt for fmt in FORMATS if fmt != "json"]
"""A JSON document describes one host; NDJSON has a line for each."""
MOST_BYTES = 6_000_000
UNREADABLE_SOURCE = Audited("bad.tar.gz", None, "bad.tar.gz: not a snapshot")


@pytest.mark.parametrize(("fixture", "fmt"), STORED_REPORTS)
def test_host_gives_the_expected_report(fixture: str, fmt: str, *, accept: bool) -> None:
    """The report of a fixture host equals the kept one."""
    check_golden(HOSTS / fixture, [Audited(fixture, report_of(fixture))], fmt, accept=accept)


@pytest.mark.parametrize("fmt", FLEET_FORMATS)
def test_fleet_gives_the_expected_report(fmt: str, *, accept: bool) -> None:
    """The fleet is the most informative hosts and a source that could not be read."""
    hosts = [
        *(Audited(fixture, report_of(fixture)) for fixture in IN_EVERY_FORMAT),
        UNREADABLE_SOURCE,
    ]
    check_golden(FLEET, hosts, fmt, accept=accept)


@pytest.mark.parametrize(
    "fixture", [name for name in FIXTURE_HOSTS if name.startswith("not-root-")]
)
def test_lab_snapshots_answer_all_asks(fixture: str) -> None:
    """The lab checks this too, half an hour later: UPDATE_FIXTURES=1 captures the hosts again.

    A new ask would be "not captured" in each of them.
    """
    source, taken_at = captured(fixture)
    asked = RecordingSource(source)
    assemble_host(asked, taken_at)
    assert asked.answers.keys() == source._answers.keys()


def test_no_stored_report_is_unused() -> None:
    """A kept report that no test compares would seem up to date."""
    kept = {f"{fixture}: {fmt}" for fixture, fmt in STORED_REPORTS}
    found = {
        f"{path.parent.name}: {path.suffix[1:]}"
        for fixture in FIXTURE_HOSTS
        for path in (HOSTS / fixture).glob("expected.*")
    }
    assert found == kept


def test_every_rule_has_the_expected_descriptor(*, accept: bool) -> None:
    """SARIF descriptors are the same for all hosts, so they are kept once; no extra ones exist."""
    assert stored_descriptors(accept=accept) == {
        rule.code: sarif.descriptor(rule) for rule in all_rules()
    }


def test_hosts_in_every_format_have_different_exit_codes() -> None:
    """They include a clean host, findings at the threshold, and an incomplete audit."""
    codes = {
        path.name.split(".")[1]
        for fixture in IN_EVERY_FORMAT
        for path in (HOSTS / fixture).glob(f"expected.*.{FOR_EVERY_HOST[0]}")
    }
    assert codes == {"0", "1", "3"}


def test_fixtures_are_small() -> None:
    """The limit detects a new kind of golden output or a large capture."""
    files = [path for path in HOSTS.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


def test_alibaba_cloud_host_has_one_high_finding() -> None:
    """PRF001 is confirmed and high on an affected kernel; nothing else is as severe."""
    report = report_of("al2-dioread-nolock-nodelalloc")
    worst = [
        (v.rule.code, f.severity.value, f.confidence.value)
        for v in report.verdicts
        for f in v.findings
        if f.severity.at_least(Severity.MEDIUM)
    ]
    assert worst == [("PRF001", "high", "confirmed")]


def test_raid0_host_has_bitmaps_on_three_of_twelve_disks() -> None:
    """LAY001 counts the bitmaps by member as on the real array."""
    report = report_of("raid0-12-disks-default-mkfs")
    (fs,) = report.host.filesystems
    assert fs.layout is not None
    loads = [member.bitmaps for member in fs.layout.value.members]  # type: ignore[union-attr]
    assert loads == [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
    (verdict,) = [v for v in report.verdicts if v.rule.code == "LAY001"]
    assert "3 of 12" in verdict.findings[0].message
