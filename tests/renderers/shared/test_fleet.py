"""The fleet summary."""

from __future__ import annotations

import pytest

from ext4audit.finding import Severity
from ext4audit.renderers.shared.fleet import FleetSums, FoundRule, HostLine
from ext4audit.renderers.shared.subjects import SetAside

LOW = FoundRule("PRF002", "auto-da-alloc-stall", Severity.LOW)
HIGH = LOW._replace(worst=Severity.HIGH)
HOTSPOT = FoundRule("LAY001", "striped-metadata-hotspot", Severity.MEDIUM)
WRITABLE = FoundRule("SEC001", "image-writable", Severity.INFO)


def fleet_summary(*lines: HostLine, threshold: Severity | None = Severity.MEDIUM) -> FleetSums:
    """Return the summary of some hosts."""
    made = FleetSums(threshold=threshold)
    for line in lines:
        made.add(line)
    return made


MIXED_HOSTS = (
    HostLine("a", (), 1, found=(LOW, HOTSPOT)),
    HostLine("b", (), 1, complete=False, found=(HIGH, WRITABLE)),
    HostLine("c", (), 3, complete=False, found=(LOW,)),
    HostLine("d", (), 3, complete=False, unread="gone; it was never here"),
    HostLine("e", (), 0, found=(HIGH,)),
    HostLine("f", (), 0),
)


def test_each_rule_has_number_and_names_of_hosts() -> None:
    """The worst severity is first; findings below the threshold are only counted."""
    found = fleet_summary(*MIXED_HOSTS)
    assert (found.hosts, found.read) == (6, 5)
    assert found.text(ascii_only=False) == (
        "HIGH    PRF002 auto-da-alloc-stall       2 of 6 hosts  b, e\n"
        "MEDIUM  LAY001 striped-metadata-hotspot  1 of 6 hosts  a\n"
        "        2 rules below medium, on 3 hosts: -v\n"
        "Incomplete: b, c (-v shows why)\n"
        "Unread: d (gone)\n"
        "6 hosts: 3 with findings at medium or worse (1 incomplete), 1 clean, 1 incomplete, "
        "1 unread\n"
    )


def test_verbose_lists_every_rule_and_severity() -> None:
    """A rule that is high on some hosts and low on others has a line for each severity."""
    assert fleet_summary(*MIXED_HOSTS).text(verbosity=1, ascii_only=False).splitlines()[:-3] == [
        "HIGH    PRF002 auto-da-alloc-stall       2 of 6 hosts  b, e",
        "MEDIUM  LAY001 striped-metadata-hotspot  1 of 6 hosts  a",
        "LOW     PRF002 auto-da-alloc-stall       2 of 6 hosts  a, c",
        "INFO    SEC001 image-writable            1 of 6 hosts  b",
    ]


def test_findings_that_do_not_count_are_counted_behind_the_hosts() -> None:
    """They can be all that a clean host has; the numbers of a baseline are there with one only."""
    aside = [SetAside(suppressed=2), SetAside(1, 3, 0), SetAside(0, 1, 4)]
    lines = [HostLine(f"h{n}", (), 0, aside=each) for n, each in enumerate(aside)]
    start = "0 with findings at medium or worse"
    assert fleet_summary(*lines).text(ascii_only=False) == (
        f"3 hosts: {start}, 3 clean; 3 suppressed, 4 in the baseline, 4 fixed\n"
    )
    assert fleet_summary(lines[0]).text(ascii_only=False) == (
        f"1 host: {start}, 1 clean; 2 suppressed\n"
    )


def test_quiet_has_only_totals() -> None:
    """Only the last line of the normal output remains."""
    found = fleet_summary(*MIXED_HOSTS)
    whole = found.text(ascii_only=False).splitlines(keepends=True)
    assert found.text(verbosity=-1, ascii_only=False) == whole[-1]


@pytest.mark.parametrize(
    ("threshold", "totals"),
    [
        (Severity.CRITICAL, "0 with findings at critical, 3 clean"),
        (Severity.HIGH, "2 with findings at high or worse (1 incomplete), 2 clean"),
        (Severity.LOW, "4 with findings at low or worse (2 incomplete), 1 clean, 1 unread"),
        (None, "3 with findings at medium or worse (1 incomplete), 1 clean"),
    ],
)
def test_findings_from_the_threshold_count(threshold: Severity | None, totals: str) -> None:
    """If no severity fails the audit, the default threshold decides what is listed."""
    last = fleet_summary(*MIXED_HOSTS, threshold=threshold).text(ascii_only=False).splitlines()[-1]
    assert last.startswith(f"6 hosts: {totals}")


def test_only_the_first_of_many_hosts_are_named() -> None:
    """Only the first names are kept, so memory does not grow with the fleet."""
    many = fleet_summary(*(HostLine(f"h{n}", (), 1, found=(HIGH,)) for n in range(1000)))
    assert many.text(ascii_only=False).startswith(
        "HIGH  PRF002 auto-da-alloc-stall  1000 of 1000 hosts  h0, h1, h2, h3, h4 and 995 more\n"
    )


def test_hostile_name_is_escaped() -> None:
    """A newline or ESC in a file name neither starts a line nor moves the cursor."""
    text = fleet_summary(HostLine("a\n\x1b[31m", (), 3, unread="x")).text(ascii_only=True)
    assert text.splitlines()[0] == r"Unread: a\x0a\x1b[31m (x)"


def test_fleet_without_findings_is_one_line() -> None:
    """Only the totals remain."""
    assert fleet_summary(HostLine("a", (), 0)).text(ascii_only=False) == (
        "1 host: 0 with findings at medium or worse, 1 clean\n"
    )


def test_only_mild_rules_are_one_line_without_columns() -> None:
    """The line has nothing to be aligned with."""
    text = fleet_summary(HostLine("a", (), 0, found=(LOW,))).text(ascii_only=False)
    assert text.splitlines()[0] == "1 rule below medium, on 1 host: -v"


def test_lines_fit_the_terminal() -> None:
    """Continuation lines are indented below the rule's code; names are not broken."""
    names = ("storage-ams-01.example.org", "storage-ams-02.example.org")
    found = fleet_summary(*(HostLine(name, (), 1, found=(HIGH,)) for name in names))
    assert found.text(ascii_only=True, width=60).splitlines() == [
        "HIGH  PRF002 auto-da-alloc-stall  2 of 2 hosts",
        "      storage-ams-01.example.org, storage-ams-02.example.org",
        "2 hosts: 2 with findings at medium or worse, 0 clean",
    ]
    assert len(found.text(ascii_only=True).splitlines()) == 2
