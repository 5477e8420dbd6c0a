from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Severity
from ext4audit.renderers import Audited
from ext4audit.renderers.gitlab import render
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
    hostile_report,
    rated_report,
)
from support.hosts.strategies import HOSTS

KEYS = {"description", "check_name", "fingerprint", "severity", "location"}
SEVERITIES = {
    "critical": "blocker",
    "high": "critical",
    "medium": "major",
    "low": "minor",
    "info": "info",
}


def issues(*hosts: Audited) -> Any:
    """Render, parse, and check what GitLab reads of every issue."""
    text = render(hosts, PAGE)
    assert text.isascii()
    assert text.startswith("[")
    read = json.loads(text)
    for issue in read:
        assert_issue(issue)
    assert len({each["fingerprint"] for each in read}) == len(read)
    return read


def assert_issue(issue: Any) -> None:
    """Assert the keys, a valid severity, a printable text and a relative path."""
    assert set(issue) == KEYS
    assert issue["severity"] in SEVERITIES.values()
    assert issue["description"].isprintable()
    assert len(issue["fingerprint"]) == 32
    assert issue["location"]["path"].startswith("hosts/")
    assert issue["location"]["lines"]["begin"] >= 1


def test_finding_is_an_issue() -> None:
    """The description has the rule, the host, the subject and the consequence."""
    assert issues(CRITICAL)[1] == {
        "description": "LAY001 striped-metadata-hotspot, db1, /dev/md127 on /mnt/a\\x1b[b: "
        "All bitmaps lie on 1 of 2 disks.",
        "check_name": "LAY001",
        "fingerprint": "bf623e133bb15c1c2173c387fa80a316",
        "severity": "major",
        "location": {"path": "hosts/db1/proc/self/mountinfo", "lines": {"begin": 1}},
    }


@pytest.mark.parametrize("severity", Severity)
def test_gitlab_severities(severity: Severity) -> None:
    """GitLab has five severities, and "critical" is not its worst."""
    (issue,) = issues(Audited("x", rated_report(severity)))
    assert issue["severity"] == SEVERITIES[severity.value]


def test_accepted_finding_is_info() -> None:
    """The issue remains, with the reason; only the severity and the text differ."""
    accepted = next(each for each in issues(PROCESSED_REPORT) if each["check_name"] == "DUR001")
    assert accepted["severity"] == "info"
    reason = "[suppressed: replaced in May, says storage team, until 2026-05-31] DUR001 "
    assert accepted["description"].startswith(reason)


def test_known_finding_is_unchanged() -> None:
    """GitLab compares with the target branch: if left out, it would look fixed."""
    known = next(each for each in issues(PROCESSED_REPORT) if each["check_name"] == "LAY001")
    assert known["severity"] == "major"


def test_fixed_finding_is_info() -> None:
    """The fingerprint differs from the finding's, so that GitLab still sees it disappear."""
    (gone,) = [each for each in issues(PROCESSED_REPORT) if each["check_name"] == "fixed"]
    assert gone["severity"] == "info"
    expected = "[fixed] CAP001, db9, /dev/sdz on /old: Only 1 inode is left."
    assert gone["description"] == expected
    assert gone["fingerprint"] not in {each["fingerprint"] for each in issues(CRITICAL)}


def test_path_is_not_encoded() -> None:
    """GitLab shows the path literally."""
    (issue,) = issues(UNREADABLE_HOST._replace(label="x/db 1%"))
    assert issue["location"]["path"] == "hosts/db 1%/proc/self/mountinfo"


def test_gaps_are_info_issues() -> None:
    """Each gap and each broken rule is an issue; an empty list would look clean."""
    found = issues(INCOMPLETE)
    assert [(each["check_name"], each["severity"]) for each in found] == [
        ("not-determined", "info")
    ] * 3
    assert "run as root" in found[1]["description"]


def test_host_without_a_report_is_an_issue() -> None:
    """The host must not look like one without findings."""
    (issue,) = issues(UNREADABLE_HOST)
    assert issue["description"].startswith("bad.tar.gz could not be read: ")
    assert issue["location"]["path"] == "hosts/bad.tar.gz/proc/self/mountinfo"


def test_clean_host_has_no_issue() -> None:
    """The output is an empty JSON list."""
    assert issues(CLEAN_HOST) == []
    assert issues() == []


def test_hosts_are_in_source_order() -> None:
    """All hosts are in one list, in the order of the sources."""
    names = [each["location"]["path"].split("/")[1] for each in issues(*FLEET)]
    assert list(dict.fromkeys(names)) == ["db1", "m", "bad.tar.gz", "db9"]


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_hostile_names_are_only_text(name: str) -> None:
    """Any name yields an issue with one printable line."""
    assert issues(Audited(name, hostile_report(name)), Audited(name, None, name))


@given(HOSTS)
@examples(25)
def test_issues_of_any_host(any_host: Host) -> None:
    """Every finding is an issue; an incomplete audit has at least one more."""
    of = audit(LIVE, any_host, all_rules())
    gaps = [each for each in issues(Audited("x", of)) if each["check_name"] == "not-determined"]
    assert bool(gaps) != of.complete
    assert len(issues(Audited("x", of))) == len(gaps) + len(of.findings)
