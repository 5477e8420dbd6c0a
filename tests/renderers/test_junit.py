from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from junitparser import JUnitXml, TestCase, TestSuite

from ext4audit.engine import audit
from ext4audit.evidence import Undetermined
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.renderers import Audited, Page
from ext4audit.renderers.junit import render
from ext4audit.report import Outcome, Report
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules import all_rules
from support.builders import UNREAD as GAP
from support.builders import filesystem, host, mount
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
    barriers,
    hostile_report,
    inodes,
    md127,
    rated_report,
    report,
)
from support.hosts.fixture_hosts import report_of, some_fixture_hosts
from support.hosts.strategies import HOSTS

TestCase.__test__ = TestSuite.__test__ = False
EVIDENCE = "evidence of the host"
_COUNTED = {"tests", "failures", "errors"}
_RESULT: tuple[set[str], set[str], set[str]] = (set(), {"message", "type"}, set())
XUNIT = {
    "testsuites": (set[str](), {"name", "time", *_COUNTED}, {"testsuite"}),
    "testsuite": (
        {"name", *_COUNTED},
        {
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        },
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set[str](), set[str](), {"property"}),
    "property": ({"name", "value"}, set[str](), set[str]()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    **dict.fromkeys(("skipped", "error", "failure"), _RESULT),
    **dict.fromkeys(("system-out", "system-err"), (set[str](), set[str](), set[str]())),
}
"""Required and optional attributes and children of each element: junit-10.xsd of Jenkins' xUnit
plugin (jenkinsci/xunit-plugin, types/model/xsd), without what only Surefire writes."""
XUNIT_TIME = re.compile(r"[0-9,]*(\.[0-9]*)?")
"""The type of `time` in that schema."""


def suites(*hosts: Audited, page: Page = PAGE) -> JUnitXml:
    """Render, parse with two parsers, and check the properties that every file must have."""
    text = render(hosts, page)
    assert text.isascii()
    assert_xunit_takes(ET.fromstring(text))  # noqa: S314 - our own output
    read = JUnitXml.fromstring(text)
    names = [(case.classname, case.name) for case in all_cases(read)]
    assert len(set(names)) == len(names)
    counted = JUnitXml.fromstring(text)
    counted.update_statistics()  # type: ignore[no-untyped-call]
    assert numbers(read)[:3] == numbers(counted)[:3]
    assert [numbers(suite) for suite in read] == [numbers(suite) for suite in counted]
    return read


def assert_xunit_takes(element: ET.Element) -> None:
    """Assert the rules of Jenkins' xUnit plugin for an element and its descendants."""
    required, optional, children = XUNIT[element.tag]
    assert required <= set(element.attrib) <= required | optional, element.tag
    assert {child.tag for child in element} <= children, element.tag
    assert XUNIT_TIME.fullmatch(element.get("time", "0"))
    for child in element:
        assert_xunit_takes(child)


def numbers(of: Any) -> tuple[int, int, int, int]:
    """Return the number of cases, in total and of each kind."""
    return of.tests, of.failures, of.errors, of.skipped


def all_cases(read: JUnitXml) -> Iterator[Any]:
    """Yield all test cases."""
    for suite in read:
        yield from suite


def outcomes_by_name(read: JUnitXml) -> dict[str, str]:
    """Return the outcome of each case by name; cases of the same name must agree."""
    return {
        case.name: type(case.result[0]).__name__ if case.result else "passed"
        for case in all_cases(read)
    }


def case_of(read: JUnitXml, code: str) -> Any:
    """Return the only case of a rule that did not pass."""
    (found,) = [case for case in all_cases(read) if case.name.startswith(code) and case.result]
    return found


def test_pass_is_a_case() -> None:
    """Without the case nobody could see that a failed test has passed since."""
    (suite,) = suites(CLEAN_HOST)
    assert suite.name == "web1"
    assert [(case.classname, case.name, case.result) for case in suite] == [
        ("ext4audit.web1.host", EVIDENCE, []),
        ("ext4audit.web1./", "DUR001 barrier-disabled", []),
    ]


def test_finding_is_a_failure() -> None:
    """The message is the consequence, the type the severity; the text has the remaining details."""
    case = case_of(suites(CRITICAL), "DUR001")
    assert case.classname == "ext4audit.db1./mnt/a\\x1b[b"
    (failure,) = case.result
    assert failure.type == "critical"
    assert failure.message.startswith("Write barriers are off")
    lines = failure.text.split("\n")
    assert lines[0].startswith("CRITICAL: Write barriers are off")
    assert "  option in force: nobarrier (/proc/fs/ext4/md127/options)" in lines
    assert "      mount -o remount,barrier \"$(printf '/mnt/a\\033\\133b')\"" in lines
    assert "  Remedy (online): Enable barriers again." in lines


def test_not_applicable_is_no_case() -> None:
    """A rule that judged nothing has no case."""
    names = [case.name for case in all_cases(suites(CRITICAL)) if case.name.startswith("LAY001")]
    assert len(names) == 1


@pytest.mark.parametrize(
    ("severity", "threshold", "kind"),
    [
        (Severity.CRITICAL, Severity.CRITICAL, "Failure"),
        (Severity.HIGH, Severity.CRITICAL, "Skipped"),
        (Severity.MEDIUM, Severity.MEDIUM, "Failure"),
        (Severity.LOW, Severity.MEDIUM, "Skipped"),
        (Severity.INFO, Severity.INFO, "Failure"),
        (Severity.LOW, None, "Failure"),
        (Severity.INFO, None, "Skipped"),
    ],
)
def test_failures_by_threshold(severity: Severity, threshold: Severity | None, kind: str) -> None:
    """Findings below --fail-on are skipped, with their text; without it only info is skipped."""
    page = PAGE._replace(threshold=threshold)
    read = suites(Audited("x", rated_report(severity)), page=page)
    assert outcomes_by_name(read)["KRN003 fast-commit-corruption"] == kind
    assert "This kernel can lose files." in case_of(read, "KRN003").result[0].message


def test_accepted_and_known_findings_are_skipped() -> None:
    """Findings accepted by the policy or known from the baseline neither fail nor pass."""
    read = suites(PROCESSED_REPORT)
    (accepted,) = case_of(read, "DUR001").result
    (known,) = case_of(read, "LAY001").result
    assert type(accepted).__name__ == type(known).__name__ == "Skipped"
    reason = "(suppressed: replaced in May, says storage team, until 2026-05-31)"
    assert accepted.message.endswith(reason)
    assert known.message == "All bitmaps lie on 1 of 2 disks. (in the baseline)"


def test_gaps_are_skipped_and_errors_are_errors() -> None:
    """A gap does not pass, a broken rule is an error, and the gaps of the host have a case."""
    read = suites(INCOMPLETE)
    assert set(outcomes_by_name(read).items()) == {
        (EVIDENCE, "Skipped"),
        ("CAP001 inode-exhaustion", "Skipped"),
        ("HLT009 rule-with-a-bug", "Error"),
    }
    skipped = [case.result[0] for case in all_cases(read) if case.name.startswith("CAP001")]
    assert {each.message for each in skipped} == {"not determined: something (permission denied)"}
    assert "run as root" in skipped[0].text
    gap = case_of(read, EVIDENCE).result[0]
    assert gap.message == "not determined: the mount table of PID 1: timed out: after 10 s"
    broken = next(case.result[0] for case in all_cases(read) if case.name.startswith("HLT009"))
    assert broken.message == "the rule stopped with an error: KeyError: 'sd'"
    assert broken.text.startswith("Traceback")


def test_host_without_a_report_is_an_error() -> None:
    """The suite exists, and its only case has the reason."""
    (suite,) = suites(UNREADABLE_HOST)
    (case,) = suite
    assert (case.classname, case.name) == ("ext4audit.bad.tar.gz.host", EVIDENCE)
    assert case.result[0].message == "could not be read: fleet/bad.tar.gz: not a snapshot"


@rule("DUR005", "two-findings", severity=Severity.HIGH, since="0.1")
def two_findings_and_a_gap(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find two things, then need unknown evidence."""
    yield Finding("The milder one.", Severity.MEDIUM, Confidence.LIKELY, ())
    yield Finding("The worse one.", Severity.HIGH, Confidence.LIKELY, (), fact=fs.name)
    raise Undetermined(())


def test_fixed_finding_passes() -> None:
    """Its output is the finding in the baseline."""
    read = suites(PROCESSED_REPORT)
    (case,) = [
        each for each in all_cases(read) if each.classname.endswith("fixed since the baseline")
    ]
    assert (case.name, case.result) == ("CAP001 on /dev/sdz on /old", [])
    assert case.system_out == "Fixed: Only 1 inode is left."


@pytest.mark.parametrize(
    "broken",
    [
        '<testsuites skipped="1"/>',
        '<testsuites><testsuite name="x" tests="0" failures="0"/></testsuites>',
        '<testsuites time="1s"/>',
        "<testsuites><testcase name='x'/></testsuites>",
    ],
)
def test_xunit_rules_refuse_invalid_elements(broken: str) -> None:
    """The cases: unknown attribute, missing attribute, invalid time, misplaced element."""
    with pytest.raises(AssertionError):
        assert_xunit_takes(ET.fromstring(broken))  # noqa: S314 - written here


def test_case_has_all_findings_of_a_rule() -> None:
    """The worst finding is the message, and the text has all of them."""
    (failure,) = case_of(
        suites(Audited("x", report(host(filesystem()), two_findings_and_a_gap))), "DUR005"
    ).result
    assert (failure.message, failure.type) == ("The worse one. (and 1 more)", "high")
    assert "MEDIUM: The milder one." in failure.text


def test_undetermined_without_a_reason_does_not_pass() -> None:
    """A rule that is undetermined without a reason has not passed either."""
    judged = report(host(filesystem()), barriers)
    verdict = judged.verdicts[0]._replace(outcome=Outcome.UNDETERMINED)
    read = suites(Audited("x", judged._replace(verdicts=(verdict,))))
    assert case_of(read, "DUR001").result[0].message == "not determined"


def test_equal_gaps_are_reported_once() -> None:
    """Two facts can be missing for the same reason."""
    judged = report(host(filesystem(superblock=GAP)), inodes)
    verdict = judged.verdicts[0]._replace(unknowns=(GAP, GAP))
    (skipped,) = case_of(
        suites(Audited("x", judged._replace(verdicts=(verdict,)))), "CAP001"
    ).result
    assert skipped.message == "not determined: something (permission denied)"
    assert skipped.text == f"{skipped.message}\nrun as root"


def test_two_filesystems_on_one_mount_point_are_disambiguated() -> None:
    """The device is appended, and for the same device a number."""
    over = [
        filesystem(uuid="a", device="/dev/sda"),
        filesystem(uuid="b", device="/dev/sdb"),
        filesystem(uuid="c", device="/dev/sdb"),
    ]
    cases = list(all_cases(suites(Audited("x", report(host(*over), inodes)))))
    assert [(case.classname, case.name) for case in cases[1:]] == [
        ("ext4audit.db1./data (/dev/sda)", "CAP001 inode-exhaustion"),
        ("ext4audit.db1./data (/dev/sdb)", "CAP001 inode-exhaustion"),
        ("ext4audit.db1./data (/dev/sdb)", "CAP001 inode-exhaustion #2"),
    ]


def test_unmounted_filesystem_is_named_by_its_device() -> None:
    """The case has no mount point to be named by."""
    read = suites(Audited("x", report(host(md127()._replace(mounts=())), inodes)))
    assert [case.classname for case in all_cases(read)][1] == "ext4audit.db1./dev/md127"


def test_many_hosts_are_suites() -> None:
    """Each host has a suite, in the order of the sources, with its counts and the time in UTC."""
    read = suites(*FLEET)
    assert [suite.name for suite in read] == ["db1", "web1", "m", "bad.tar.gz", "db9"]
    assert {suite.timestamp for suite in read} == {"2026-01-02T03:04:05"}
    root = ET.fromstring(render(FLEET, PAGE))  # noqa: S314 - our own output
    assert root.attrib == {
        "name": "ext4audit",
        "time": "1.250",
        "tests": "24",
        "failures": "2",
        "errors": "3",
    }


@pytest.mark.parametrize("name", [*HOSTILE_NAMES.values(), "]]><x>&amp;\ufffe\x00"])
def test_hostile_names_are_well_formed(name: str) -> None:
    """XML 1.0 does not allow most control characters even as references, so they are escaped."""
    read = suites(Audited(name, hostile_report(name)), Audited("x", None, name, key=f"{name}2"))
    text = render([Audited(name, hostile_report(name))], PAGE)
    assert not any(control in text for control in map(chr, (*range(9), *range(11, 32))))
    for case in all_cases(read):
        assert (case.classname + case.name).isprintable()


def test_names_are_kept_as_they_are_shown() -> None:
    """A character that XML cannot represent is read back as its escape."""
    mounted: Report = report(host(filesystem(mounts=(mount("/mnt/<a>&\"'\x1b\udcff"),))), inodes)
    classes = [case.classname for case in all_cases(suites(Audited("x", mounted)))]
    assert classes[1] == "ext4audit.db1./mnt/<a>&\"'\\x1b\\xff"


@given(HOSTS)
@examples(25)
def test_any_host_is_valid_junit(any_host: Host) -> None:
    """Each applicable verdict is a case, and only a pass passes."""
    assert_readable(audit(LIVE, any_host, all_rules()))


@some_fixture_hosts(__name__)
def test_every_fixture_host_is_valid_junit(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    assert_readable(report_of(fixture))


def assert_readable(of: Report) -> None:
    """Assert that each applicable verdict is a case."""
    read = suites(Audited("x", of))
    applying = [v for v in of.verdicts if v.outcome is not Outcome.NOT_APPLICABLE]
    assert read.tests == len(applying) + 1
    passed = [case for case in all_cases(read) if not case.result and case.name != EVIDENCE]
    assert len(passed) == sum(verdict.outcome is Outcome.PASS for verdict in applying)
