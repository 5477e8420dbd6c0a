"""Sums over many hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.finding import Severity
from ext4audit.renderers.shared.fleet import FleetSums, FoundRule, HostLine
from ext4audit.renderers.shared.page import Audited
from ext4audit.renderers.shared.rows import (
    blind_spots,
    host_names,
    rows,
    where,
)
from support.builders import host
from support.sample_reports import (
    FLEET,
    MURKY,
    NIGHT,
    TREATED,
    boot,
    md127,
    murky_report,
    night_report,
    report,
    root,
)


def named(label: str, name: str) -> Audited:
    """Make a host with this name from this source."""
    return Audited(label, report(host(root(), name=name)))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([named("a", "db1"), named("b", "db2")], ("db1", "db2")),
        ([named("x/a.tar", "db1"), named("x/b.tar", "db1")], ("db1 (a.tar)", "db1 (b.tar)")),
        ([named("x/a", "db1"), named("y/a", "db1")], ("db1 (x/a)", "db1 (y/a)")),
        ([named("a", "db1"), named("a", "db1")], ("db1 (a)", "db1 (a) #2")),
        ([named("a", ""), Audited("x/b/", None, "bad")], ("a", "b")),
        ([named("a", "x\x1b"), named("b", r"x\x1b")], ("x\x1b (a)", r"x\x1b (b)")),
        ([named("a", "x"), named("a", "x"), named("c", "x (a) #2")], None),
    ],
    ids="different alike same-end same-source nameless shown-alike looks-numbered".split(),
)
def test_every_host_has_a_name_of_its_own(
    hosts: list[Audited], expected: tuple[str, ...] | None
) -> None:
    """Hosts of one name are told apart by their sources, then by number."""
    names = host_names(hosts)
    assert len(set(names)) == len(hosts)
    assert expected is None or names == expected


def test_findings_are_sorted_from_worst_to_mildest() -> None:
    """Rows have the host, the rule, the subject and the state."""
    assert NIGHT.report is not None
    assert TREATED.report is not None
    assert [r.rule.code for r in rows("db1", NIGHT.report)] == ["DUR001", "LAY001"]
    found = {row.rule.code: row.state for row in rows("db9", TREATED.report)}
    expected = {"DUR001": "suppressed", "LAY001": "known", "KRN003": "active", "PRF002": "active"}
    assert found == expected


def test_a_finding_that_is_suppressed_and_known_is_suppressed() -> None:
    """The reason that a person gave is told before the baseline."""
    assert TREATED.report is not None
    (row,) = [r for r in rows("db9", TREATED.report) if r.rule.code == "DUR001"]
    assert replace(row, finding=replace(row.finding, known=True)).state == "suppressed"


def test_a_subject_is_called_by_device_and_mount_point() -> None:
    """The host has no device."""
    assert where(md127("/srv/a")) == "/dev/md127 on /srv/a"
    assert where(replace(boot(), mounts=())) == "/dev/nvme0n1p1"
    assert where(None) == "the host"


def test_blind_spots_say_what_is_not_known_and_how_to_know_it() -> None:
    """Gaps of the host stand first; a rule that broke says its last line."""
    said = [
        (b.rule.code if b.rule else "", b.words, b.hint) for b in blind_spots("m", murky_report())
    ]
    assert said[:3] == [
        ("", "the mount table of PID 1 (timed out: after 10 s)", ""),
        ("CAP001", "something (permission denied)", "run as root"),
        ("HLT009", "stopped with an error: KeyError: 'sd'", ""),
    ]


def test_only_an_incomplete_report_has_blind_spots() -> None:
    """What is not listed was seen."""
    for host_ in FLEET:
        if host_.report is not None:
            assert bool(blind_spots("x", host_.report)) is not host_.report.complete
    assert MURKY.report is not None
    assert not MURKY.report.complete
    assert not blind_spots("db1", night_report())


LOW = FoundRule("PRF002", "auto-da-alloc-stall", Severity.LOW)
HIGH = LOW._replace(worst=Severity.HIGH)
HOTSPOT = FoundRule("LAY001", "striped-metadata-hotspot", Severity.MEDIUM)


def sums(*lines: HostLine) -> FleetSums:
    """Sum up some hosts."""
    made = FleetSums()
    for line in lines:
        made.add(line)
    return made


def test_each_rule_says_on_how_many_hosts_and_which() -> None:
    """Sorted by code, with the worst severity of all hosts."""
    found = sums(
        HostLine("a", (), 1, found=(LOW, HOTSPOT)),
        HostLine("b", (), 1, found=(HIGH,)),
        HostLine("c", (), 3, complete=False, found=(LOW,)),
        HostLine("d", (), 3, complete=False, error="gone"),
        HostLine("e", (), 0),
    )
    assert (found.hosts, found.read) == (5, 4)
    assert found.text(ascii_only=False) == (
        "LAY001 striped-metadata-hotspot  medium    1 of 5 hosts: a\n"
        "PRF002 auto-da-alloc-stall       high      3 of 5 hosts: a, b, c\n"
        "could not be read: 1 of 5 hosts: d\n"
        "5 hosts: 3 with findings, 1 incomplete, 1 could not be read\n"
    )


def test_of_many_hosts_the_first_are_named() -> None:
    """What is kept does not grow with the fleet."""
    many = sums(*(HostLine(f"h{n}", (), 1, found=(LOW,)) for n in range(1000)))
    assert many.text(ascii_only=False).startswith(
        "PRF002 auto-da-alloc-stall  low       "
        "1000 of 1000 hosts: h0, h1, h2, h3, h4 and 995 more\n"
    )


def test_a_hostile_name_is_shown_and_not_sent() -> None:
    """A newline or ESC in a file's name starts no line and moves no cursor."""
    text = sums(HostLine("a\n\x1b[31m", (), 3, error="x")).text(ascii_only=True)
    assert text.splitlines()[0] == r"could not be read: 1 of 1 host: a\x0a\x1b[31m"


def test_a_fleet_without_findings_is_one_line() -> None:
    """There is nothing to name."""
    assert sums(HostLine("a", (), 0)).text(ascii_only=False) == (
        "1 host: 0 with findings, 0 incomplete, 0 could not be read\n"
    )
