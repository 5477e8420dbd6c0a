from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest

from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page
from ext4audit.report import Report
from support.browser.html_page import only, rendered, text_of, with_class, with_suppressed_rule
from support.builders import host
from support.formats.sample_reports import (
    barriers,
    critical_report,
    hostile_report,
    hotspot,
    incomplete_report,
    md127,
    report,
    root,
)

UNREAD = Audited("snaps/db7.tgz", None, "not a tar archive")
CLEAN_REPORT = report(host(root(), name="web1"), barriers)


def fleet_page() -> Element:
    """Return the page of a host with findings, an unread, an incomplete and a clean host."""
    murky = Audited("x", incomplete_report(), key="db2")
    return rendered(CLEAN_REPORT, UNREAD, murky, with_suppressed_rule(critical_report(), "LAY001"))


def test_result_and_totals_are_at_the_top() -> None:
    """The result is that of the worst host; findings are counted by severity, hosts by state."""
    page = fleet_page()
    banner = only([each for each in with_class(page, "banner") if "hosts" in text_of(each)])
    assert text_of(banner) == "Failed: 1 of 4 hosts have findings at medium or worse."
    assert "critical" in banner.get("class", "")
    findings, hosts = with_class(page, "totals")
    assert text_of(findings) == "Findings: 1 critical 1 suppressed"
    assert text_of(hosts) == (
        "Hosts: 1 with findings at medium or worse 1 clean 1 incomplete 1 could not be read"
    )


@pytest.mark.parametrize(
    ("hosts", "threshold", "expected"),
    [
        ((critical_report(), UNREAD), Severity.CRITICAL, "Failed: 1 of 2 hosts have findings at"),
        (
            (critical_report(), UNREAD),
            None,
            "Incomplete: no findings that fail the audit, but 1 of 2",
        ),
        (
            (CLEAN_REPORT, UNREAD),
            Severity.LOW,
            "Incomplete: no findings at low or worse, but 1 of 2 hosts",
        ),
        (
            (CLEAN_REPORT, incomplete_report()),
            Severity.LOW,
            "Incomplete: no findings at low or worse, but 1 of",
        ),
        (
            (CLEAN_REPORT, CLEAN_REPORT),
            Severity.LOW,
            "Passed: 2 of 2 hosts without findings at low or worse.",
        ),
        ((CLEAN_REPORT, CLEAN_REPORT), None, "No severity fails this audit."),
    ],
)
def test_result_equals_the_exit_code(
    hosts: tuple[Report | Audited, ...], threshold: Severity | None, expected: str
) -> None:
    """Findings take precedence over missing evidence, and missing evidence never passes."""
    page = rendered(*hosts, page=Page("1", "t", threshold=threshold))
    assert text_of(with_class(page, "banner")[0]).startswith(expected)


def test_fleet_is_a_table_of_hosts_and_rules() -> None:
    """A cell names the worst severity; the worst host and the worst rule come first."""
    page = fleet_page()
    matrix = only(with_class(page, "matrix"))
    heads = [text_of(each) for each in next(matrix.iter("thead"))[0]]
    assert heads == [
        "Host",
        "DUR001 barrier-disabled",
        "CAP001 inode-exhaustion",
        "HLT009 rule-with-a-bug",
        "LAY001 striped-metadata-hotspot",
    ]
    rows = [[text_of(cell) for cell in row] for row in next(matrix.iter("tbody"))]
    assert rows == [
        ["db1", "critical", "", "", "accepted"],
        ["db7.tgz", "? could not be read: not a tar archive"],
        ["db2 ? gaps", "", "?", "?", ""],
        ["web1", "ok", "", "", ""],
    ]
    assert len(with_class(page, "host")) == 4
    assert "This host could not be read: not a tar archive." in text_of(page)


def test_hosts_of_equal_severity_are_sorted_by_findings() -> None:
    """The rows are in the same order as the sections below."""
    one = report(host(md127(), name="one"), barriers)
    two = report(host(md127(), name="two"), barriers, hotspot)
    page = rendered(one, two)
    rows = [text_of(row[0]) for row in next(only(with_class(page, "matrix")).iter("tbody"))]
    assert rows == ["two", "one"]
    assert [text_of(next(each.iter("h2"))) for each in with_class(page, "host")] == rows


def test_rule_lists_its_hosts_and_has_its_page() -> None:
    """The worst rule is first; hosts with a milder finding are counted separately."""
    mild = critical_report()
    verdicts = [
        v._replace(findings=tuple(f._replace(severity=Severity.LOW) for f in v.findings))
        for v in mild.verdicts
    ]
    low = Audited("x", mild._replace(verdicts=tuple(verdicts)), key="db2")
    page = rendered(low, critical_report(), UNREAD)
    rules = with_class(page, "rule")
    worst = only([each for each in rules if each.get("id") == "rule-DUR001"])
    share = "1 of 3 hosts, milder on 1 more"
    assert text_of(worst[0]).startswith(f"CRITICAL DUR001 barrier-disabled {share}")
    assert text_of(only(with_class(worst, "hosts"))) == "db1, db2 low"
    assert worst.get("open") is None
    codes = [each.get("id") for each in rules if each.tag == "details"]
    assert codes == ["rule-DUR001", "rule-LAY001"]


def test_no_commands_below_the_threshold_in_a_fleet() -> None:
    """A milder finding is one line; the rule's page appears once, not with each finding."""
    page = rendered(critical_report(), UNREAD, page=Page("1", "t", threshold=Severity.HIGH))
    found = [each for each in with_class(page, "finding") if "rule" not in each.get("class", "")]
    severe = [each for each in found if with_class(each, "command")]
    assert [text_of(each[0])[:15] for each in severe] == ["CRITICAL DUR001"]
    mild = [each for each in found if each not in severe]
    assert [each.tag for each in mild] == ["div"]
    assert text_of(mild[0]).endswith("All bitmaps lie on 1 of 2 disks.")
    assert not with_class(page, "why")


def test_cell_has_finding_and_gap() -> None:
    """The finding does not hide the gap."""
    matrix = only(with_class(rendered(hostile_report("x"), critical_report()), "matrix"))
    cells = [text_of(cell) for cell in matrix.iter("td")]
    assert "high ?" in cells


def test_cell_has_the_worst_severity_of_all_filesystems() -> None:
    """A filesystem with a mild finding does not hide a severe one on the same host."""
    (bad,) = [
        verdict
        for verdict in critical_report().verdicts
        if verdict.rule.code == "LAY001" and verdict.findings
    ]
    mild = bad._replace(findings=(bad.findings[0]._replace(severity=Severity.INFO),))
    of = critical_report()._replace(verdicts=(mild, bad, mild))
    matrix = only(with_class(rendered(of, UNREAD), "matrix"))
    assert text_of(next(matrix.iter("td"))) == "medium"
