from __future__ import annotations

from support.browser.html_page import (
    details_element,
    only,
    rendered,
    text_of,
    with_class,
    with_suppressed_rule,
)
from support.builders import host, unknown
from support.formats.sample_reports import (
    barriers,
    buggy,
    critical_report,
    hotspot,
    incomplete_report,
    inodes,
    md127,
    report,
    root,
)


def test_worst_subject_is_first_with_links() -> None:
    """A finding links to its filesystem, and the filesystem to its findings."""
    page = rendered(critical_report())
    first = with_class(page, "subject")[0]
    assert text_of(first[0]) == r"CRITICAL /dev/md127 on /mnt/a\x1b[b, /srv"
    links = list(only(with_class(first, "entries")).iter("a"))
    found = with_class(page, "finding")
    assert [text_of(link) for link in links] == ["DUR001", "LAY001"]
    assert [link.get("href") for link in links] == [f"#{each.get('id')}" for each in found[:2]]
    (link,) = found[0][0].iter("a")
    assert link.get("href") == f"#{first.get('id')}"


def test_passes_and_not_applicable_are_folded() -> None:
    """A pass lists its evidence, a rule that does not apply its reason."""
    page = rendered(report(host(root()), barriers, hotspot))
    passed, spared = (
        details_element(page, "1 rule passed"),
        details_element(page, "1 rule not applicable"),
    )
    assert "DUR001barrier-disabledbarrier: barrier (/proc/fs/ext4/sda/options)" in text_of(passed)
    assert "LAY001striped-metadata-hotspotno stripe lies below" in text_of(spared)
    assert {passed.get("open"), spared.get("open")} == {None}


def test_gap_is_reported_and_does_not_pass() -> None:
    """The table names the unknown, the reason, how to determine it, and the rules that need it."""
    page = rendered(incomplete_report())
    assert not with_class(page, "fine")
    first = with_class(page, "subject")[0]
    assert text_of(first[0]) == "INCOMPLETE /dev/sda on /data"
    assert "No findings, but 2 rules could not be judged." in text_of(first)
    assert "somethingpermission deniedrun as rootCAP001" in text_of(first)
    broken = details_element(first, "HLT009 rule-with-a-bug stopped with an error: KeyError")
    assert "This is a bug in ext4audit." in text_of(broken)
    assert "the mount table of PID 1timed out: after 10 s" in text_of(page)


def test_suppressed_finding_is_folded_with_its_reason() -> None:
    """A suppressed finding stays in the page but is not counted."""
    page = rendered(with_suppressed_rule(critical_report(), "LAY001"))
    aside = details_element(page, "1 finding suppressed or in the baseline")
    assert aside.get("open") is None
    assert "printed" in aside.get("class", "")
    assert ("Suppressed: Replaced in spring (owner: dba@example), until 2027-03-31") in text_of(
        aside
    )
    assert "All bitmaps lie on 1 of 2 disks." in text_of(aside)
    assert text_of(with_class(page, "chips")[0]) == "1 critical 1 suppressed"


def test_subject_with_only_suppressed_findings_does_not_pass() -> None:
    """A subject whose only finding is suppressed counts neither as passed nor as not judged."""
    page = rendered(with_suppressed_rule(report(host(md127()), hotspot), "LAY001"))
    assert text_of(with_class(page, "subject")[0][0]).startswith("SET ASIDE")
    assert "SET ASIDE All findings are suppressed or in the baseline." in text_of(page)


def test_rule_error_is_reported_as_a_gap() -> None:
    """A rule that raised is shown even without an unknown; there is no empty table."""
    page = rendered(report(host(root()), buggy))
    assert (
        details_element(page, "HLT009 rule-with-a-bug stopped with an error: KeyError") is not None
    )
    assert "Hint" not in text_of(page)
    assert text_of(with_class(page, "subject")[0][0]).startswith("INCOMPLETE")


def test_every_gap_of_a_rule_is_reported_once() -> None:
    """A rule that lacks two pieces of evidence names both, once each."""
    two = (unknown("the journal"), unknown("the superblock"))
    verdicts = [verdict._replace(unknowns=two) for verdict in incomplete_report().verdicts]
    shown = text_of(rendered(incomplete_report()._replace(verdicts=tuple(verdicts))))
    assert shown.count("the journalpermission denied") == shown.count("the superblockp") == 2


def test_subject_with_only_passes() -> None:
    """A subject with only passes is reported as passed, in a sentence."""
    page = rendered(report(host(root()), inodes))
    assert "NO FINDINGS All rules that apply passed." in text_of(page)
