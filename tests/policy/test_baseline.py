"""Baselines: findings that are new since an earlier report, and those that are fixed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Finding, Severity, Suppression
from ext4audit.policy.baseline import (
    apply_baseline,
    difference,
    known_findings,
    known_host,
    superblock_key,
)
from ext4audit.renderers.json_v1 import render_report
from ext4audit.report import Report, ReportSource
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules import all_rules
from support.builders import filesystem, host, mount, unknown
from support.examples import examples
from support.hosts.strategies import HOSTS

LIVE = ReportSource("live", "db1")
RULES = all_rules()


@rule("DUR901", "labelled", severity=Severity.CRITICAL, since="0.1")
def labelled(fs: Filesystem, _host: Host) -> RuleOutput:
    """Find each "severity fact" of the label; "gap" is an unknown instead."""
    for entry in (fs.label or "").split(","):
        severity, _, fact = entry.partition(" ")
        if severity == "gap":
            need(fs.superblock)
        elif severity:
            yield Finding(
                f"{fact} is bad.", Severity(severity), Confidence.CONFIRMED, (), fact=fact
            )


def report(*labels: str, suppressed: bool = False, **changes: Any) -> Report:
    """Audit one filesystem per label; they differ by UUID."""
    subjects = [
        filesystem(label=label, uuid=f"u-{n}", superblock=unknown("superblock"), **changes)
        for n, label in enumerate(labels)
    ]
    made = audit(LIVE, host(*subjects), (labelled,))
    return accepted(made) if suppressed else made


def accepted(made: Report) -> Report:
    """Return the report with every finding suppressed."""
    suppression = Suppression("it is so")
    verdicts = [
        v._replace(findings=tuple(f._replace(suppression=suppression) for f in v.findings))
        for v in made.verdicts
    ]
    return made._replace(verdicts=tuple(verdicts))


def document(made: Report) -> dict[str, Any]:
    """Return the report as parsed from its JSON."""
    read: dict[str, Any] = json.loads(render_report(made, tool_version="0"))
    return read


def compared(new: Report, old: Report) -> tuple[list[str], list[str]]:
    """Return the facts of active findings and of fixed ones, with an older report as baseline."""
    marked = apply_baseline(new, known_findings(document(old)))
    return [f.fact for f in marked.counted], [gone.fact for gone in marked.fixed or ()]


@pytest.mark.parametrize(
    ("old", "new", "fresh", "fixed"),
    [
        pytest.param(["high a"], ["high a"], [], [], id="the same"),
        pytest.param([""], ["high a"], ["a"], [], id="new"),
        pytest.param(["high a"], [""], [], ["a"], id="fixed"),
        pytest.param(["high a"], ["high b"], ["b"], ["a"], id="another fact"),
        pytest.param(["low a"], ["high a"], ["a"], [], id="worse"),
        pytest.param(["high a"], ["low a"], [], [], id="milder"),
        pytest.param(["high a", ""], ["", "high a"], ["a"], ["a"], id="another superblock"),
        pytest.param(["high a"], ["gap"], [], [], id="not seen again"),
        pytest.param(["high a,high b"], ["high a,gap"], [], [], id="not wholly seen again"),
    ],
)
def test_findings_are_new_known_or_fixed(
    old: list[str], new: list[str], fresh: list[str], fixed: list[str]
) -> None:
    """Findings are equal if rule, superblock and fact are; an unknown one is never fixed."""
    assert compared(report(*new), report(*old)) == (fresh, fixed)


def test_a_renamed_device_changes_nothing() -> None:
    """A superblock is identified by its UUID, whatever the device's current name is."""
    old = report("high a", name="sda", device="/dev/sda")
    new = report("high a", name="sdb", device="/dev/sdb", number=DeviceNumber(8, 16))
    assert compared(new, old) == ([], [])


def test_an_attached_copy_changes_nothing() -> None:
    """An attached snapshot changes both ids to "UUID@number", but the key is the UUID."""
    old, new = report("high a"), report("high a", shares_uuid=True)
    assert new.host.filesystems[0].id == "u-0@8:0"
    assert compared(new, old) == ([], [])


@pytest.mark.parametrize(("mount_point", "fresh"), [("/data", []), ("/other", ["a"])])
@pytest.mark.parametrize("byte", ["", "\udcff"])
def test_a_device_number_alone_does_not_identify_a_filesystem(
    mount_point: str, fresh: list[str], byte: str
) -> None:
    """Without a UUID, whatever had the device number after a boot was taken for the old one."""
    seen = filesystem(uuid=None, label="high a", mounts=(mount(f"/data{byte}"),))
    now = seen._replace(mounts=(mount(f"{mount_point}{byte}"),))
    old, new = (audit(LIVE, host(each), (labelled,)) for each in (seen, now))
    assert compared(new, old) == (fresh, [])
    assert len(difference(document(old), document(new)).new) == len(fresh)


def test_nothing_is_fixed_unless_every_copy_was_judged() -> None:
    """Copies share their key, so all of them must have been judged."""
    seen = filesystem(uuid="u", shares_uuid=True)
    unseen = seen._replace(label="gap", superblock=unknown("it"), device_number=DeviceNumber(8, 1))
    new = audit(LIVE, host(seen, unseen), (labelled,))
    old = audit(LIVE, host(seen._replace(label="high a")), (labelled,))
    assert compared(new, old) == ([], [])


@pytest.mark.parametrize(
    ("before", "now", "fresh"),
    [(True, False, ["a"]), (True, True, []), (False, True, []), (False, False, [])],
)
def test_an_expired_suppression_is_not_part_of_the_baseline(
    before: bool, now: bool, fresh: list[str]
) -> None:
    """A finding counts again on the day after its suppression ends."""
    old, new = report("high a", suppressed=before), report("high a", suppressed=now)
    assert compared(new, old)[0] == fresh


def without_facts(made: Report) -> dict[str, Any]:
    """Return the report in the form of JSON version 1.0."""
    read = document(made)
    for verdict in read["verdicts"]:
        for finding in verdict["findings"]:
            del finding["fact"], finding["suppression"], finding["known"]
    return read


@pytest.mark.parametrize(
    ("new", "fresh", "fixed"),
    [("high a,high b", [], []), ("critical a", ["a"], []), ("", [], [""])],
)
def test_a_report_without_facts_matches_rule_and_superblock(
    new: str, fresh: list[str], fixed: list[str]
) -> None:
    """JSON 1.0 has no facts: any fact of the rule on that superblock counts as known."""
    marked = apply_baseline(report(new), known_findings(without_facts(report("high a"))))
    assert [f.fact for f in marked.counted] == fresh
    assert [gone.fact for gone in marked.fixed or ()] == fixed


def test_names_that_are_not_utf8_differ() -> None:
    """The key consists of the original bytes, not of their replacement."""
    old, new = report("high \udcff"), report("high \udcfe")
    assert compared(old, old) == ([], [])
    assert compared(new, old) == (["\udcfe"], ["\udcff"])


def test_a_fixed_finding_has_the_former_name_of_its_subject() -> None:
    """The subject is the device and mount point as given in the baseline."""
    marked = apply_baseline(report(""), known_findings(document(report("high a"))))
    assert [(g.rule, g.subject, g.message) for g in marked.fixed or ()] == [
        ("DUR901", "/dev/sda on /data", "a is bad.")
    ]


@examples(60)
@given(judged=HOSTS)
def test_a_baseline_of_the_same_report_leaves_nothing(judged: Host) -> None:
    """Compared with itself, a report of any host has no new and no fixed finding."""
    made = audit(LIVE, judged, RULES)
    marked = apply_baseline(made, known_host(document(made)).findings)
    assert (marked.counted, marked.fixed) == ((), ())
    found = difference(document(made), document(made))
    assert (found.new, found.fixed, found.unchecked) == ((), (), ())
    assert len(found.unchanged) == len(made.findings)


@examples(60)
@given(old=HOSTS, new=HOSTS)
def test_every_finding_is_in_one_list(old: Host, new: Host) -> None:
    """New and unchanged findings are the newer report's; the others are fixed or unchecked."""
    older, newer = audit(LIVE, old, RULES), audit(LIVE, new, RULES)
    found = difference(document(older), document(newer))
    assert len(found.new) + len(found.unchanged) == len(newer.findings)
    keys = {each.key for each in known_findings(document(newer))}
    gone = [each for each in known_findings(document(older)) if each.key not in keys]
    assert sorted(gone, key=repr) == sorted((*found.fixed, *found.unchecked), key=repr)
    assert {f.key for f in found.fixed}.isdisjoint(keys)


@examples(100)
@given(judged=HOSTS)
def test_no_verdict_has_two_findings_of_one_fact(judged: Host) -> None:
    """A baseline's key requires facts to be unique for a rule and a subject."""
    for verdict in audit(LIVE, judged, RULES).verdicts:
        facts = [finding.numbered_fact for finding in verdict.findings]
        assert len(set(facts)) == len(facts), verdict.rule.code


@examples(60)
@given(judged=HOSTS)
def test_no_fact_names_a_device(judged: Host) -> None:
    """Devices are renamed and renumbered; mount points, UUIDs and options stay the same."""
    made = audit(LIVE, judged, RULES)
    names = {name for fs in judged.filesystems for name in _device_names(fs)}
    for finding in made.findings:
        assert not names & set(finding.fact.split()), finding


def _device_names(fs: Filesystem) -> Iterable[str]:
    """Return the kernel's names for a filesystem's device."""
    return fs.device, fs.name, str(fs.device_number)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"filesystems": [], "verdicts": 3},
        {"filesystems": [{}], "verdicts": []},
        {"filesystems": None, "verdicts": []},
        {"filesystems": [], "verdicts": [{"rule": 3, "filesystem": None, "findings": [{}]}]},
        {"filesystems": [], "verdicts": [{"rule": "X", "filesystem": ["u"], "findings": [{}]}]},
        {
            "filesystems": [],
            "verdicts": [
                {"rule": "X", "filesystem": None, "findings": [{"fact": "", "severity": "bad"}]}
            ],
        },
        {
            "filesystems": [],
            "verdicts": [
                {"rule": "X", "filesystem": None, "findings": [{"fact_b64": "?", "fact": ""}]}
            ],
        },
    ],
)
def test_other_documents_are_refused(broken: dict[str, Any]) -> None:
    """The file's reader handles these exceptions; no others are raised."""
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        known_findings(broken)


@pytest.mark.parametrize(
    ("filesystem_id", "key"), [(None, ""), ("u", "u"), ("u@8:0", "u"), ("8:0", "8:0")]
)
def test_a_superblock_is_known_by_its_uuid(filesystem_id: str | None, key: str) -> None:
    """The key is "" for the host itself; without a UUID it is the device number."""
    assert superblock_key(filesystem_id) == key
