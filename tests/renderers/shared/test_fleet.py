"""The summary of a fleet."""

from __future__ import annotations

from ext4audit.finding import Severity
from ext4audit.renderers.shared.fleet import FleetSums, FoundRule, HostLine

LOW = FoundRule("PRF002", "auto-da-alloc-stall", Severity.LOW)
HIGH = LOW._replace(worst=Severity.HIGH)
HOTSPOT = FoundRule("LAY001", "striped-metadata-hotspot", Severity.MEDIUM)


def sums(*lines: HostLine) -> FleetSums:
    """Add up some hosts."""
    made = FleetSums()
    for line in lines:
        made.add(line)
    return made


def test_each_rule_has_the_number_of_hosts_and_their_names() -> None:
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


def test_a_quiet_summary_is_its_last_line() -> None:
    """However many rules and hosts there are."""
    found = sums(
        HostLine("a", (), 1, found=(LOW, HOTSPOT)), HostLine("d", (), 3, complete=False, error="x")
    )
    last = found.text(ascii_only=False).splitlines()[-1]
    assert found.text(ascii_only=False, quiet=True) == f"{last}\n"


def test_of_many_hosts_the_first_are_named() -> None:
    """Memory does not grow with the fleet."""
    many = sums(*(HostLine(f"h{n}", (), 1, found=(LOW,)) for n in range(1000)))
    assert many.text(ascii_only=False).startswith(
        "PRF002 auto-da-alloc-stall  low       "
        "1000 of 1000 hosts: h0, h1, h2, h3, h4 and 995 more\n"
    )


def test_a_hostile_name_is_escaped() -> None:
    """A newline or ESC in a file's name starts no line and moves no cursor."""
    text = sums(HostLine("a\n\x1b[31m", (), 3, error="x")).text(ascii_only=True)
    assert text.splitlines()[0] == r"could not be read: 1 of 1 host: a\x0a\x1b[31m"


def test_a_fleet_without_findings_is_one_line() -> None:
    """Only the totals are left."""
    assert sums(HostLine("a", (), 0)).text(ascii_only=False) == (
        "1 host: 0 with findings, 0 incomplete, 0 could not be read\n"
    )
