from __future__ import annotations

from ext4audit.finding import Severity
from ext4audit.renderers.shared import Audited
from support.builders import host
from support.formats.sample_reports import (
    barriers,
    hostile_report,
    murky_report,
    night_report,
    report,
    root,
)
from support.html_page import only, read, suppressed, with_class, words

UNREAD = Audited("snaps/db7.tgz", None, "not a tar archive")


def test_a_fleet_is_a_table_of_hosts_and_rules() -> None:
    """A cell has the worst severity as text; the worst host is first; an unread one is shown."""
    fine = report(host(root(), name="web1"), barriers)
    murky = Audited("x", murky_report(), key="db2")
    page = read(fine, UNREAD, murky, suppressed(night_report(), "LAY001"))
    matrix = only(with_class(page, "matrix"))
    heads = [words(each) for each in next(matrix.iter("thead"))[0]]
    assert heads == [
        "Host",
        "CAP001 inode-exhaustion",
        "DUR001 barrier-disabled",
        "HLT009 rule-with-a-bug",
        "LAY001 striped-metadata-hotspot",
    ]
    rows = [[words(cell) for cell in row] for row in next(matrix.iter("tbody"))]
    assert rows == [
        ["db1", "", "critical", "", "aside"],
        ["db7.tgz", "? could not be read: not a tar archive"],
        ["db2 ? gaps", "?", "", "?", ""],
        ["web1", "", "ok", "", ""],
    ]
    assert words(with_class(page, "chips")[0]) == (
        "4 hosts 1 with findings 1 incomplete 1 could not be read"
    )
    assert len(with_class(page, "host")) == 4
    assert "This host could not be read: not a tar archive." in words(page)


def test_a_finding_and_a_gap_of_one_rule_are_both_in_the_cell() -> None:
    """What was found does not hide what could not be seen."""
    matrix = only(with_class(read(hostile_report("x"), night_report()), "matrix"))
    cells = [words(cell) for cell in matrix.iter("td")]
    assert "high ?" in cells


def test_the_cell_has_the_worst_of_all_filesystems() -> None:
    """A host with a mild and a bad filesystem is a bad host."""
    (bad,) = [
        verdict
        for verdict in night_report().verdicts
        if verdict.rule.code == "LAY001" and verdict.findings
    ]
    mild = bad._replace(findings=(bad.findings[0]._replace(severity=Severity.INFO),))
    of = night_report()._replace(verdicts=(mild, bad, mild))
    matrix = only(with_class(read(of, UNREAD), "matrix"))
    assert words(next(matrix.iter("td"))) == "medium"
