from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page, visible
from ext4audit.renderers.nagios import LARGEST_OUTPUT, STATUS, render, status
from ext4audit.report import Report, nagios_code
from ext4audit.rules import all_rules
from support.examples import examples
from support.formats.sample_reports import (
    CLEAN_HOST,
    CRITICAL,
    FLEET,
    HOSTILE_NAMES,
    INCOMPLETE,
    LIVE,
    PAGE,
    PROCESSED_REPORT,
    UNREADABLE_HOST,
    edits,
    hostile_report,
    rated_report,
    repeated_report,
    unread_report,
)
from support.hosts.fixture_hosts import report_of, some_fixture_hosts
from support.hosts.strategies import HOSTS

DATUM = re.compile(
    r"(?P<label>'[^'=]+'|[^ '=]+)=(?P<value>-?[0-9.]+)(?P<unit>[a-zA-Z%]*)"
    r"(?:;(?P<warn>[-0-9.:~@]*)(?:;(?P<crit>[-0-9.:~@]*)(?:;(?P<min>[0-9.]*)(?:;[0-9.]*)?)?)?)?"
)
"""One item of performance data (Monitoring Plugins Development Guidelines)."""


class Output(NamedTuple):
    """The output of a plugin as Nagios parses it."""

    status: str
    text: str
    numbers: dict[str, float]
    alerts: set[str]
    lines: list[str]


def read(*hosts: Audited, page: Page = PAGE) -> Output:
    """Render, and split the first line at its bar; the other lines are kept unchanged."""
    text = render(hosts, page)
    assert text.endswith("\n")
    first, *lines = text.removesuffix("\n").split("\n")
    shown, bar, performance = first.partition("|")
    assert bar
    assert not any(set(line) & {"|", "$", "`"} for line in (*lines, shown, performance))
    head = re.fullmatch(r"EXT4AUDIT (OK|WARNING|CRITICAL|UNKNOWN) - (.+) ", shown)
    assert head
    data = [DATUM.fullmatch(datum) for datum in performance.split()]
    assert all(data)
    numbers = {each["label"]: float(each["value"]) for each in data if each}
    alerts = {
        name
        for each in data
        if each
        for name in ("warn", "crit")
        if each[name] == "0" and float(each["value"]) > 0
    }
    return Output(head[1], head[2], numbers, alerts, lines)


@pytest.mark.parametrize(
    ("severity", "threshold", "expected"),
    [
        (Severity.CRITICAL, Severity.MEDIUM, "CRITICAL"),
        (Severity.HIGH, Severity.MEDIUM, "CRITICAL"),
        (Severity.MEDIUM, Severity.MEDIUM, "WARNING"),
        (Severity.LOW, Severity.MEDIUM, "OK"),
        (Severity.LOW, Severity.INFO, "WARNING"),
        (Severity.HIGH, Severity.CRITICAL, "OK"),
        (Severity.CRITICAL, None, "OK"),
    ],
)
def test_status_by_severity_and_threshold(
    severity: Severity, threshold: Severity | None, expected: str
) -> None:
    """The ranges of the performance data alert at the same values."""
    page = PAGE._replace(threshold=threshold)
    found = read(Audited("r", rated_report(severity)), page=page)
    assert found.status == expected
    assert found.alerts == {"CRITICAL": {"crit"}, "WARNING": {"warn"}, "OK": set()}[expected]
    assert found.numbers[severity.value] == 1


def test_first_line_has_counts_and_the_worst_finding() -> None:
    """A pager shows only the first line."""
    found = read(CRITICAL)
    assert found.status == "CRITICAL"
    assert found.text == (
        r"1 critical, 1 medium on db1: DUR001 /dev/md127 on /mnt/a\x1b[b, "
        r"LAY001 /dev/md127 on /mnt/a\x1b[b"
    )
    assert found.lines[1] == (
        r"[MEDIUM] LAY001 striped-metadata-hotspot on db1, /dev/md127 on /mnt/a\x1b[b: "
        "All bitmaps lie on 1 of 2 disks."
    )


def test_clean_host_is_one_line() -> None:
    """All its counters are present, including those that are 0."""
    assert render((CLEAN_HOST,), PAGE) == (
        "EXT4AUDIT OK - no findings that fail on web1 | critical=0;;0;0 high=0;;0;0 medium=0;0;;0 "
        "low=0;;;0 info=0;;;0 suppressed=0;;;0 known=0;;;0 undetermined=0;;;0 unread=0;;;0 "
        "time=1.250s;;;0\n"
    )


def test_incomplete_host_is_unknown() -> None:
    """The status is UNKNOWN unless gaps are allowed; the lines still show what is missing."""
    found = read(INCOMPLETE)
    assert (found.status, found.numbers["undetermined"]) == ("UNKNOWN", 5)
    assert found.text == "no findings that fail on m; 5 not determined"
    assert found.lines[2] == (
        "[UNKNOWN] m: not determined, for CAP001 on /dev/sda on /data, /dev/sdb on /data: "
        "something (permission denied) (run as root)"
    )
    allowed = read(INCOMPLETE, page=PAGE._replace(allow_incomplete=True))
    assert (allowed.status, len(allowed.lines)) == ("OK", 3)


def test_unread_host_is_unknown() -> None:
    """It never hides a finding, and reading no host at all is never a success."""
    found = read(CLEAN_HOST, UNREADABLE_HOST)
    assert (found.status, found.numbers["unread"]) == ("UNKNOWN", 1)
    assert "[UNKNOWN] bad.tar.gz could not be read: fleet/bad.tar.gz: not a snapshot" in (
        found.lines
    )
    assert read(*FLEET).status == "CRITICAL"
    allowed = PAGE._replace(allow_incomplete=True)
    assert read(CLEAN_HOST, UNREADABLE_HOST, page=allowed).status == "OK"
    assert read(UNREADABLE_HOST, page=allowed).status == "UNKNOWN"


def test_suppressed_and_known_findings_are_only_counted() -> None:
    """They raise no alert and have no line."""
    found = read(PROCESSED_REPORT)
    assert (found.status, found.numbers["critical"], found.alerts) == ("OK", 0, set())
    assert (found.numbers["suppressed"], found.numbers["known"], found.lines) == (1, 1, [])


def test_fixed_findings_are_counted_only_with_a_baseline() -> None:
    """Without a baseline the counter is absent, because 0 would be wrong."""
    assert read(PROCESSED_REPORT, CLEAN_HOST).numbers["fixed"] == 1
    assert "fixed" not in read(CLEAN_HOST).numbers


def test_at_most_fifty_lines() -> None:
    """Nagios keeps 8 KiB; the last line counts the findings left out."""
    many = [Audited("x", rated_report(Severity.HIGH), key=f"x{n}") for n in range(60)]
    found = read(*many)
    assert (len(found.lines), found.lines[-1]) == (51, "and 10 more")
    assert found.numbers["high"] == 60
    assert len(read(*many, page=PAGE._replace(verbosity=-1)).lines) == 0


def test_findings_of_one_cause_share_a_line() -> None:
    """If there are too many lines, findings of a cause share one, with their number and names."""
    found = read(
        Audited("x", repeated_report(60, edits)), page=PAGE._replace(threshold=Severity.LOW)
    )
    names = "/dev/d0 on /srv/0, /dev/d1 on /srv/1, /dev/d2 on /srv/2 and 57 more"
    where = f"db1, 60 of 60 filesystems ({names})"
    assert found.lines[0] == f"[MEDIUM] CAP002 slow-disk on {where}: the disk is slow"
    assert found.lines[1].endswith(f" on {where}: Slow.")
    assert found.numbers["medium"] == 120


def test_gaps_of_one_cause_share_a_line() -> None:
    """The gaps of forty disks that only root can read once hid all others."""
    names = "/dev/d0 on /srv/0, /dev/d1 on /srv/1, /dev/d2 on /srv/2 and 37 more"
    lacks = "superblock of ... (permission denied) (run as root)"
    assert read(Audited("x", unread_report(40))).lines == [
        f"[UNKNOWN] db1: not determined, for CAP001 on {names}: {lacks}"
    ]


def test_output_is_below_8_kib() -> None:
    """Nagios silently drops everything beyond 8 KiB, including the line that counts the rest."""
    long = [Audited("x", hostile_report("/é" * 200), key=f"h{number}") for number in range(30)]
    text = render(long, PAGE)
    assert LARGEST_OUTPUT - 2048 < len(text.encode()) <= LARGEST_OUTPUT
    whole = read(*long[:1])
    found = read(*long)
    assert found.lines[-1] == f"and {30 * len(whole.lines) - len(found.lines) + 1} more"


@pytest.mark.parametrize(
    "name", [*HOSTILE_NAMES.values(), "a | b=1", "$USER1$ $(id) `id`", "x;y"], ids=repr
)
def test_hostile_names_are_escaped(name: str) -> None:
    """A bar, a dollar sign and a backtick are escaped, and a name stays on its line."""
    found = read(Audited(name, hostile_report(name)))
    assert set(found.numbers) == set(read(CLEAN_HOST).numbers)
    shown = visible(name).replace("|", r"\x7c").replace("$", r"\x24").replace("`", r"\x60")
    assert f"The mount point {shown} is odd." in found.lines[0]
    assert len(found.text) < 700


@examples(25)
@given(judged=HOSTS)
def test_status_of_any_host_is_its_exit_code(judged: Host) -> None:
    """The same function determines both."""
    assert_status(audit(LIVE, judged, all_rules()))


@some_fixture_hosts(__name__)
def test_status_of_every_fixture_host_is_its_exit_code(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    assert_status(report_of(fixture))


def assert_status(report: Report) -> None:
    """Assert that the status is the exit code as a word."""
    code = nagios_code((report,), PAGE.threshold, allow_incomplete=PAGE.allow_incomplete)
    host = Audited("x", report)
    assert read(host).status == STATUS[code]
    assert status((host,), PAGE) == code
