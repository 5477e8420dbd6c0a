from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Severity
from ext4audit.renderers.prometheus import render
from ext4audit.renderers.shared import Audited, visible
from ext4audit.report import Report
from ext4audit.rules import all_rules
from support.formats.sample_reports import (
    CLEAN,
    FLEET,
    HOSTILE_NAMES,
    LIVE,
    NIGHT,
    PAGE,
    PROCESSED,
    UNREADABLE,
    hostile_report,
    murky_report,
    night_report,
)
from support.hosts.any_host import HOSTS
from support.hosts.stories import every_story, report_of

Samples = dict[str, list[tuple[dict[str, str], float]]]
LINE = re.compile(
    r'# (?:HELP|TYPE) [a-z0-9_]+ .+|[a-z0-9_]+(?:\{(?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? \S+'
)
"""Every line of the text format 0.0.4, without a timestamp."""


def families(*hosts: Audited) -> list[Metric]:
    """Render and read back, by the client library's parser."""
    text = render(hosts, PAGE)
    assert all(LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n"))
    return list(text_string_to_metric_families(text))


def samples(*hosts: Audited) -> Samples:
    """Return labels and values by name."""
    found: Samples = {}
    for family in families(*hosts):
        for sample in family.samples:
            assert sample.timestamp is None
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def numbers(found: Samples, name: str, key: str = "host") -> dict[str, float]:
    """Return the values of a metric by one label."""
    return {labels[key]: value for labels, value in found[name]}


def test_a_finding_is_a_series_of_value_one() -> None:
    """Its labels are the location, the rule, the severity and the confidence."""
    assert samples(NIGHT)["ext4audit_finding"][1] == (
        {
            "host": "db1",
            "rule": "LAY001",
            "severity": "medium",
            "confidence": "likely",
            "mountpoint": r"/mnt/a\x1b[b",
            "device": "/dev/md127",
            "uuid": "u-md127",
            "fact": "",
        },
        1,
    )


def test_every_severity_is_counted_also_those_without_findings() -> None:
    """A series that is there with 0 can be compared; one that vanishes cannot."""
    expected = {severity.value: 0.0 for severity in Severity} | {"critical": 1, "medium": 1}
    assert numbers(samples(NIGHT), "ext4audit_findings", "severity") == expected
    assert sum(numbers(samples(CLEAN), "ext4audit_findings", "severity").values()) == 0


def test_findings_that_do_not_count_have_names_of_their_own() -> None:
    """An alert on ext4audit_finding fires for none of them."""
    found = samples(PROCESSED)
    rules = {
        name: sorted(labels["rule"] for labels, _ in found[name])
        for name in found
        if name.endswith("_finding")
    }
    assert rules == {
        "ext4audit_finding": ["KRN003", "PRF002"],
        "ext4audit_suppressed_finding": ["DUR001"],
        "ext4audit_known_finding": ["LAY001"],
    }
    assert numbers(found, "ext4audit_suppressed_findings") == {"db9": 1}
    assert numbers(found, "ext4audit_known_findings") == {"db9": 1}
    assert numbers(found, "ext4audit_fixed_findings") == {"db9": 1}


def test_what_nobody_could_judge_is_counted() -> None:
    """A gap makes the scan incomplete: two rules on two filesystems, and a gap."""
    found = samples(Audited("x", murky_report()))
    assert numbers(found, "ext4audit_undetermined") == {"db1": 5}
    assert numbers(found, "ext4audit_scan_complete") == {"db1": 0}
    assert numbers(found, "ext4audit_host_audited") == {"db1": 1}


def test_a_host_that_could_not_be_read_is_there() -> None:
    """It is neither complete nor audited, and has no number of findings."""
    found = samples(*FLEET)
    assert numbers(found, "ext4audit_host_audited")["bad.tar.gz"] == 0
    assert numbers(found, "ext4audit_scan_complete")["bad.tar.gz"] == 0
    assert "bad.tar.gz" not in numbers(found, "ext4audit_findings")
    assert set(samples(UNREADABLE)) == {
        *("ext4audit_host_audited", "ext4audit_scan_complete", "ext4audit_build_info"),
        *("ext4audit_last_run_timestamp_seconds", "ext4audit_scan_duration_seconds"),
    }


def test_the_run_is_described() -> None:
    """The time is that of the page, in seconds since 1970."""
    found = samples(CLEAN)
    assert found["ext4audit_last_run_timestamp_seconds"] == [({}, 1767323045)]
    assert found["ext4audit_scan_duration_seconds"] == [({}, 1.25)]
    assert found["ext4audit_build_info"] == [({"version": "0.1.0"}, 1)]


def assert_well_formed(read: Sequence[Metric]) -> None:
    """Assert that each name stands once with its help, and each series once."""
    names = [family.name for family in read]
    assert len(names) == len(set(names))
    assert all(family.documentation and family.type == "gauge" for family in read)
    series = [(s.name, tuple(sorted(s.labels.items()))) for f in read for s in f.samples]
    assert len(series) == len(set(series))


def test_names_and_series_are_unique() -> None:
    """Also of hosts that are called alike, and of findings that have the same labels."""
    assert_well_formed(families(*FLEET))
    assert_well_formed(families(NIGHT, NIGHT, Audited("y", night_report())))
    report = night_report()
    twice = [v._replace(findings=v.findings * 2) for v in report.verdicts]
    double = Audited("x", report._replace(verdicts=tuple(twice)))
    assert_well_formed(families(double))
    assert len(samples(double)["ext4audit_finding"]) == 2
    assert numbers(samples(double), "ext4audit_findings", "severity")["critical"] == 2


@pytest.mark.parametrize(
    "name", [*HOSTILE_NAMES.values(), 'a"b', "a\\", '{host="x"} 1', "a\\nb"], ids=repr
)
def test_a_label_is_read_back_as_it_was(name: str) -> None:
    """Newlines too, as in node_exporter's labels; other controls are shown as escapes."""
    (labels, _), *_ = samples(Audited("x", hostile_report(name)))["ext4audit_finding"]
    assert labels["mountpoint"] == "\n".join(map(visible, name.split("\n")))
    assert labels["device"] == labels["mountpoint"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(judged=HOSTS)
def test_any_host_is_read_back(judged: Host) -> None:
    """The numbers by severity are those of the report."""
    assert_measured(audit(LIVE, judged, all_rules()))


@every_story
def test_every_fixture_host_is_read_back(story: str) -> None:
    """A fixture host combines facts that the strategy does not draw."""
    assert_measured(report_of(story))


def assert_measured(report: Report) -> None:
    """Assert that the numbers by severity are those of the report."""
    host = Audited("x", report)
    assert_well_formed(families(host))
    by_severity = numbers(samples(host), "ext4audit_findings", "severity")
    assert sum(by_severity.values()) == len(report.findings)
    assert numbers(samples(host), "ext4audit_scan_complete")[report.host.name] == report.complete
