from __future__ import annotations

import csv
import json
import re
from email.message import Message
from importlib.metadata import PackageNotFoundError
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Citation, Severity
from ext4audit.policy.baseline import apply_baseline, known_findings
from ext4audit.renderers import Audited, sarif
from ext4audit.renderers.csv import render as render_csv
from ext4audit.renderers.json_v1 import report_object
from ext4audit.renderers.sarif import descriptor, judging
from ext4audit.report import Report
from ext4audit.rules import all_rules
from support.builders import host, known, options
from support.examples import examples
from support.formats.sample_reports import (
    CLEAN_HOST,
    CRITICAL,
    FIXED_FINDING,
    FLEET,
    HOSTILE_NAMES,
    INCOMPLETE,
    LIVE,
    NOTICE,
    PAGE,
    PROCESSED_REPORT,
    UNREADABLE_HOST,
    barriers,
    boot,
    changed,
    hostile_report,
    md127,
    old_kernel,
    report,
    root,
)
from support.formats.sample_reports import rated_report as rated
from support.hosts.fixture_hosts import report_of, some_fixture_hosts
from support.hosts.strategies import HOSTS

SCHEMA = Path(__file__).parents[1] / "support" / "formats" / "sarif-schema-2.1.0.json"
SARIF = Draft202012Validator(json.loads(SCHEMA.read_text()))
LINK = "/mnt/[click](http://example.com/){0}"
SCORES = {"critical": "9.5", "high": "8.0", "medium": "5.0", "low": "2.0", "info": "0.1"}
LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "info": "note"}


def run_of(*hosts: Audited) -> Any:
    """Render, check what must hold for every log, and return its run."""
    text = sarif.render(hosts, PAGE)
    assert text.isascii()
    log = json.loads(text)
    text.encode()
    json.dumps(log, ensure_ascii=False).encode()
    assert not list(SARIF.iter_errors(log))
    assert len(log["runs"]) == 1
    assert_github_takes(log["runs"][0])
    return log["runs"][0]


def fingerprints_of(made: Report) -> set[str]:
    """Return the fingerprints of all results of a host."""
    results = run_of(Audited("x", made))["results"]
    return {each["partialFingerprints"]["primaryLocationLineHash"] for each in results}


def with_baseline(now: Report, before: Report) -> Report:
    """Return a report compared with an earlier one."""
    return apply_baseline(now, known_findings(report_object(before, tool_version="0")))


def assert_github_takes(run: Any) -> None:
    """Assert what GitHub requires beyond the schema; it refuses a whole file for one violation."""
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"]
    assert re.fullmatch(r"ext4audit/([^/]+/)?", run["automationDetails"]["id"])
    assert len(run["results"]) <= 25_000
    for rule in rules:
        assert_descriptor(rule)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] if "ruleIndex" in result else 1
        assert_result(result)
    fingerprints = [
        each["partialFingerprints"]["primaryLocationLineHash"] for each in run["results"]
    ]
    assert len(set(fingerprints)) == len(fingerprints)


def assert_descriptor(rule: Any) -> None:
    """Assert that a rule descriptor has everything that GitHub shows."""
    texts = (rule["shortDescription"], rule["fullDescription"], rule["help"])
    assert rule["id"]
    assert all(each["text"] for each in texts)
    assert len(rule["shortDescription"]["text"]) <= 1024
    assert len(rule["fullDescription"]["text"]) <= 1024
    assert len(rule["properties"]["tags"]) <= 20
    assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
    assert urlsplit(rule.get("helpUri", "https://x/")).scheme == "https"


def assert_result(result: Any) -> None:
    """Assert that a result has a relative path and a complete region."""
    assert result["message"]["text"]
    location = result["locations"][0]["physicalLocation"]
    uri = urlsplit(location["artifactLocation"]["uri"])
    assert (uri.scheme, uri.netloc, uri.query, uri.fragment) == ("", "", "", "")
    assert re.fullmatch(r"hosts/([A-Za-z0-9._~-]|%[0-9A-F]{2})+/[a-z/]+", uri.path)
    region = location["region"]
    assert set(region) == {"startLine", "startColumn", "endLine", "endColumn"}
    assert min(region.values()) >= 1
    assert re.fullmatch("[0-9a-f]{32}:1", result["partialFingerprints"]["primaryLocationLineHash"])


def test_strict_assertion_finds_what_the_schema_accepts() -> None:
    """A result without a physical location is valid in the schema, but GitHub refuses the file."""
    log = json.loads(sarif.render([CRITICAL], PAGE))
    for broken in ([], [{"logicalLocations": [{"name": "x"}]}]):
        log["runs"][0]["results"][0]["locations"] = broken
        assert not list(SARIF.iter_errors(log))
        with pytest.raises((IndexError, KeyError)):
            assert_github_takes(log["runs"][0])


def test_finding_is_a_result() -> None:
    """The message has consequence, subject, evidence and remedies; commands are properties."""
    (critical, _) = run_of(CRITICAL)["results"]
    assert critical == {
        "ruleId": "DUR001",
        "ruleIndex": 0,
        "level": "error",
        "message": {
            "text": "Write barriers are off above disks with a volatile write cache: a power cut "
            "can corrupt the filesystem.\n\n"
            "Found on db1, /dev/md127 on /mnt/a\\x1b[b.\n\n"
            "Evidence:\n"
            "- option in force: nobarrier (/proc/fs/ext4/md127/options)\n"
            "- mount point: /mnt/a\\x1b[b (/proc/self/mountinfo)\n\n"
            "Remedy (online): Enable barriers again.\n"
            "Or (needs an unmount): Use drives with power-loss protection."
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "hosts/db1/proc/self/mountinfo"},
                    "region": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1},
                },
                "logicalLocations": [
                    {
                        "fullyQualifiedName": "db1//dev/md127//mnt/a\\x1b[b",
                        "kind": "resource",
                    }
                ],
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": "105c2a519adf8f4c436c4f0a54c981c3:1"},
        "properties": {
            "severity": "critical",
            "confidence": "confirmed",
            "fact": "",
            "remedies": [
                "Remedy (online): Enable barriers again.",
                "  now:",
                "    mount -o remount,barrier \"$(printf '/mnt/a\\033\\133b')\"",
                "  for good:",
                "    tune2fs -o ^nobarrier /dev/md127",
                "  check:",
                "    grep -x barrier /proc/fs/ext4/md127/options",
                "  undo:",
                "    tune2fs -o nobarrier /dev/md127 &&",
                "    mount -o remount,nobarrier \"$(printf '/mnt/a\\033\\133b')\"",
                "  Trade-off: Each fsync() waits for a cache flush.",
                "Or (needs an unmount): Use drives with power-loss protection.",
            ],
        },
    }


def test_location_of_a_finding_that_cites_fstab() -> None:
    """The alert is on that line of the file, if an inventory keeps the file."""
    cited = (Citation("fstab line 4", "defaults", "/etc/fstab", fstab_line=4),)
    of = changed(report(host(md127()), old_kernel), lambda _, f: f._replace(citations=cited))
    location = run_of(Audited("x", of))["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "hosts/db1/etc/fstab"
    assert location["region"] == {"startLine": 4, "startColumn": 1, "endLine": 4, "endColumn": 1}


@pytest.mark.parametrize("severity", Severity)
def test_level_by_severity(severity: Severity) -> None:
    """SARIF has three levels; the severity itself is a property."""
    (result,) = run_of(Audited("x", rated(severity)))["results"]
    assert result["level"] == LEVELS[severity.value]
    assert result["properties"]["severity"] == severity.value


def test_suppressed_finding_is_marked() -> None:
    """The justification is the policy's reason, with the owner and the last day."""
    found = {each["ruleId"]: each for each in run_of(PROCESSED_REPORT)["results"]}
    assert found["DUR001"]["suppressions"] == [
        {
            "kind": "external",
            "status": "accepted",
            "justification": "replaced in May, says storage team, until 2026-05-31",
        }
    ]
    assert not any("suppressions" in each for code, each in found.items() if code != "DUR001")


def test_baseline_states() -> None:
    """With a baseline each result is new, unchanged or absent; without one there is no state."""
    found = {each["ruleId"]: each for each in run_of(PROCESSED_REPORT)["results"]}
    states = {code: each["baselineState"] for code, each in found.items()}
    assert states == {
        "DUR001": "new",
        "LAY001": "unchanged",
        "KRN003": "new",
        "PRF002": "new",
        "CAP001": "absent",
    }
    assert all("baselineState" not in each for each in run_of(CRITICAL)["results"])


def test_fixed_finding_is_not_a_failure() -> None:
    """SARIF 2.1.0, 3.27.9: a result that is not a failure has another kind, and level "none"."""
    gone = run_of(PROCESSED_REPORT)["results"][-1]
    assert (gone["kind"], gone["level"]) == ("pass", "none")
    assert gone["message"]["text"] == f"Fixed: {FIXED_FINDING.message}"


def test_fixed_finding_keeps_its_fingerprint() -> None:
    """Consumers match by fingerprint, even if the filesystem was renamed or is gone."""
    assert CRITICAL.report is not None
    before = report(host(root(), boot(), md127()), barriers, old_kernel)
    renamed = md127("/moved")._replace(device="/dev/md0", name="md0")
    for now in (host(root(), boot(), renamed), host(root(), boot())):
        after = report(now, barriers, old_kernel)
        healed = after._replace(verdicts=tuple(v._replace(findings=()) for v in after.verdicts))
        fixed = with_baseline(healed, before)
        assert fingerprints_of(fixed) <= fingerprints_of(before)
        assert len(fixed.fixed or ()) == len(fingerprints_of(fixed))


def test_fingerprint_of_a_fixed_finding_does_not_use_the_device() -> None:
    """Its fingerprint once equalled that of a finding on the filesystem that now has its device."""
    before = report(host(md127()), barriers)
    other = md127()._replace(uuid="u-other")
    healed = md127("/moved")._replace(device="/dev/md0", options=known(options()))
    after = with_baseline(report(host(other, healed), barriers), before)
    new, gone = run_of(Audited("x", after))["results"]
    assert (new["baselineState"], gone["baselineState"]) == ("new", "absent")
    assert new["partialFingerprints"] != gone["partialFingerprints"]
    assert fingerprints_of(before) == {gone["partialFingerprints"]["primaryLocationLineHash"]}
    rows = csv.DictReader(StringIO(render_csv([Audited("x", after)], PAGE)))
    (row,) = [each for each in rows if each["kind"] == "fixed"]
    assert (row["device"], row["mount_point"], row["uuid"]) == ("/dev/md0", "/moved", "u-md127")


def test_results_are_sorted_by_severity() -> None:
    """GitHub shows the first 5000: results of all hosts are sorted, uncounted ones last."""
    order = [each["ruleId"] for each in run_of(*FLEET)["results"]]
    assert order == ["DUR001", "LAY001", "KRN003", "PRF002", "DUR001", "LAY001", "CAP001"]


def test_omitted_results_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mildest results are left out, and a notification states how many."""
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    run = run_of(*FLEET)
    assert [each["ruleId"] for each in run["results"]] == ["DUR001", "LAY001", "KRN003"]
    last = run["invocations"][0]["toolExecutionNotifications"][-1]
    assert last["descriptor"] == {"id": "left-out"}
    assert last["message"]["text"].startswith("4 findings")
    assert run["invocations"][0]["executionSuccessful"] is False


def test_gaps_are_notifications() -> None:
    """A gap is one notification with all rules that it affects; a broken rule is an error."""
    (invocation,) = run_of(INCOMPLETE)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["endTimeUtc"] == PAGE.taken_at
    shown = [
        (each["descriptor"]["id"], each["level"], each["message"]["text"])
        for each in invocation["toolExecutionNotifications"]
    ]
    gap = "m: not determined: the mount table of PID 1 (timed out: after 10 s)"
    unknown = (
        "m: not determined, for CAP001 on /dev/sda on /data, /dev/sdb on /data: "
        "something (permission denied) (run as root)"
    )
    assert shown[:2] == [("not-determined", "warning", gap), ("not-determined", "warning", unknown)]
    ((kind, level, text),) = shown[2:]
    assert (kind, level) == ("failed", "error")
    assert "HLT009" in text
    assert "KeyError" in text


def test_host_without_a_report_is_an_error() -> None:
    """The host must not look like one without findings."""
    (invocation,) = run_of(UNREADABLE_HOST, CLEAN_HOST)["invocations"]
    (shown,) = invocation["toolExecutionNotifications"]
    assert (shown["level"], shown["descriptor"]["id"]) == ("error", "failed")
    assert shown["message"]["text"].startswith("bad.tar.gz could not be read: ")
    assert invocation["executionSuccessful"] is False


def test_complete_audit_is_successful() -> None:
    """Findings are not failures of the tool."""
    (invocation,) = run_of(CLEAN_HOST, CRITICAL)["invocations"]
    assert invocation["executionSuccessful"] is True
    assert invocation["toolExecutionNotifications"] == []


def test_policy_notices_are_configuration_notifications() -> None:
    """An expired suppression has to be corrected in the policy file."""
    (shown,) = run_of(PROCESSED_REPORT)["invocations"][0]["toolConfigurationNotifications"]
    assert shown["message"]["text"] == NOTICE


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ((CLEAN_HOST,), "ext4audit/web1/"),
        ((CLEAN_HOST, CRITICAL), "ext4audit/"),
        ((), "ext4audit/"),
    ],
)
def test_category_of_host_and_fleet(hosts: tuple[Audited, ...], expected: str) -> None:
    """GitHub separates the alerts of each category."""
    assert run_of(*hosts)["automationDetails"]["id"] == expected


def test_rules_are_those_that_ran() -> None:
    """Each rule is listed once, sorted by code, even if it found nothing."""
    rules = [rule["id"] for rule in run_of(*FLEET)["tool"]["driver"]["rules"]]
    assert rules == ["CAP001", "DUR001", "HLT009", "KRN003", "LAY001", "PRF002"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_help_of_a_rule_is_its_page(rule: Any) -> None:
    """The descriptor repeats the rule's page and has everything that GitHub shows of a rule."""
    shown = descriptor(rule)
    assert_descriptor(shown)
    assert rule.page in shown["help"]["markdown"]
    assert all(reference in shown["help"]["markdown"] for reference in rule.references)
    assert shown["helpUri"] in rule.references or "man7.org" in shown["helpUri"]
    assert shown["shortDescription"]["text"] == rule.summary
    assert "##" not in shown["fullDescription"]["text"]
    assert ("security" in shown["properties"]["tags"]) == (rule.family == "SEC")
    assert shown["properties"]["security-severity"] == SCORES[rule.severity.value]


@pytest.mark.parametrize(
    ("references", "uri"),
    [
        (("fstab(5)", "https://example.org/x"), "https://example.org/x"),
        (("fs/ext4/super.c", "fstab(5)"), "https://man7.org/linux/man-pages/man5/fstab.5.html"),
        (("systemd.mount(5)",), "https://man7.org/linux/man-pages/man5/systemd.mount.5.html"),
        (("fs/ext4/super.c: ext4_remount()",), None),
    ],
)
def test_help_uri_is_the_first_reference(references: tuple[str, ...], uri: str | None) -> None:
    """A web page takes precedence over a manual page; a source location has no URL."""
    assert descriptor(old_kernel._replace(references=references)).get("helpUri") == uri


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (
            ["Homepage, https://example.org/e", "Issues, https://example.org/i"],
            "https://example.org/e",
        ),
        (["Issues, https://example.org/i"], None),
        ([], None),
    ],
)
def test_information_uri_is_the_package_home_page(
    urls: list[str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No URL is made up if the metadata has none."""
    package = Message()
    for url in urls:
        package["Project-URL"] = url
    monkeypatch.setattr(sarif, "metadata", lambda _name: package)
    assert run_of(CLEAN_HOST)["tool"]["driver"].get("informationUri") == expected


def test_no_information_uri_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs from a source tree without metadata."""

    def missing(name: str) -> Message:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sarif, "metadata", missing)
    assert "informationUri" not in run_of(CLEAN_HOST)["tool"]["driver"]


def test_path_is_percent_encoded_once() -> None:
    """Decoded once, the path equals that of the other formats."""
    judged = rated(Severity.LOW)
    odd = Audited("x", judged._replace(host=judged.host._replace(name="db 1%20(ä)")))
    (result,) = run_of(odd)["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "hosts/db%201%2520%28%C3%A4%29/proc/self/mountinfo"
    assert unquote(uri) == "hosts/db 1%20(ä)/proc/self/mountinfo"


@pytest.mark.parametrize("word", ["word ", "word"])
def test_long_summary_of_a_site_rule(word: str) -> None:
    """GitHub would refuse a summary of that length; the help has it in full."""
    shown = descriptor(old_kernel._replace(code="XAA001", summary=500 * word))
    assert_descriptor(shown)
    assert len(shown["shortDescription"]["text"]) > 1000
    assert 500 * word in shown["help"]["text"]


def test_long_description_is_cut_between_words() -> None:
    """GitHub accepts 1024 characters."""
    page = f"## What it checks\n\n{'some words ' * 200}\n\n## Why it matters\n\nIt does."
    text = descriptor(old_kernel._replace(docstring=page))["fullDescription"]["text"]
    assert 1000 < len(text) <= 1024
    assert text.endswith((" some…", " words…"))


def test_log_without_hosts_is_valid() -> None:
    """A log without hosts is valid."""
    assert judging([]) == ()
    assert run_of()["results"] == []


@pytest.mark.parametrize("name", [*HOSTILE_NAMES.values(), LINK], ids=[*HOSTILE_NAMES, "link"])
def test_hostile_names_are_only_text(name: str) -> None:
    """No name adds a control character, a link, a placeholder, or another path."""
    run = run_of(Audited(name, hostile_report(name)), Audited(name, None, name))
    texts = [each["message"]["text"] for each in run["results"]]
    texts += [
        each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]
    ]
    for text in texts:
        assert text.replace("\n", "").isprintable()
        assert "](" not in text
        assert not re.search(r"(?<!\{)\{(\{\{)*[0-9]", text)


@given(HOSTS)
@examples(25)
def test_any_host_is_valid_for_github(any_host: Host) -> None:
    """Every finding is a result, and an incomplete audit has a notification."""
    assert_logged(audit(LIVE, any_host, all_rules()))


@some_fixture_hosts(__name__)
def test_every_fixture_host_is_valid_for_github(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    assert_logged(report_of(fixture))


def assert_logged(of: Report) -> None:
    """Assert that each finding is a result, and that gaps have notifications."""
    run = run_of(Audited("x", of))
    assert len(run["results"]) == len(of.findings)
    notified = run["invocations"][0]["toolExecutionNotifications"]
    assert bool(notified) != of.complete
