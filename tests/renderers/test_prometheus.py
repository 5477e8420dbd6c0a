from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.renderers import Audited, visible
from ext4audit.renderers.prometheus import render, value_of
from ext4audit.report import DataFile, Report
from ext4audit.rules import all_rules
from support.builders import host
from support.examples import examples
from support.formats.sample_reports import (
    CLEAN_HOST,
    CRITICAL,
    FLEET,
    HOSTILE_NAMES,
    LIVE,
    PAGE,
    PROCESSED_REPORT,
    UNREADABLE_HOST,
    barriers,
    changed,
    critical_report,
    hostile_report,
    incomplete_report,
    md127,
    rated_report,
    report,
)
from support.hosts.fixture_hosts import report_of, some_fixture_hosts
from support.hosts.strategies import HOSTS

Samples = dict[str, list[tuple[dict[str, str], float]]]
LINE = re.compile(
    r'# (?:HELP|TYPE) [a-z0-9_]+ .+|[a-z0-9_]+(?:\{(?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? \S+'
)
"""Every line of the text format 0.0.4, without a timestamp."""


def families(*hosts: Audited) -> list[Metric]:
    """Render, and parse with the client library."""
    text = render(hosts, PAGE)
    assert all(LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n"))
    return list(text_string_to_metric_families(text))


def samples(*hosts: Audited) -> Samples:
    """Return pairs of labels and value, by metric name."""
    found: Samples = {}
    for family in families(*hosts):
        for sample in family.samples:
            assert sample.timestamp is None
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def numbers(found: Samples, name: str, key: str = "host") -> dict[str, float]:
    """Return the values of a metric by the value of one label."""
    return {labels[key]: value for labels, value in found[name]}


SUBJECT = {
    "host": "db1",
    "rule": "LAY001",
    "device": "/dev/md127",
    "mountpoint": r"/mnt/a\x1b[b",
    "uuid": "u-md127",
}
"""The labels that identify the milder finding of `CRITICAL`."""


def test_finding_is_a_series_with_severity_as_value() -> None:
    """Labels identify the rule and the filesystem; anything variable is a value or in _info."""
    found = samples(CRITICAL)
    assert found["ext4audit_finding_severity"][1] == (SUBJECT, 3)
    assert found["ext4audit_finding_confidence"][1] == (SUBJECT, 2)
    assert found["ext4audit_finding_info"][1] == (
        {**SUBJECT, "name": "striped-metadata-hotspot", "state": "active", "facts": ""},
        1,
    )


def test_changed_finding_keeps_its_series() -> None:
    """A different severity, confidence, fact or message changes values but adds no series."""
    other = changed(
        critical_report(),
        lambda _, finding: finding._replace(
            severity=Severity.LOW, confidence=Confidence.POSSIBLE, fact="commit", message="Other."
        ),
    )
    before, after = samples(CRITICAL), samples(CRITICAL._replace(report=other))
    for name in ("ext4audit_finding_severity", "ext4audit_finding_confidence"):
        assert [labels for labels, _ in before[name]] == [labels for labels, _ in after[name]]
        assert [value for _, value in before[name]] != [value for _, value in after[name]]
    assert after["ext4audit_finding_info"][1][0]["facts"] == "commit"


def samples_of_findings(*findings: Finding) -> Samples:
    """Return the samples of a host on which one rule has these findings on one subject."""
    (verdict,) = rated_report(Severity.LOW).verdicts
    verdict = verdict._replace(findings=findings)
    return samples(Audited("x", rated_report(Severity.LOW)._replace(verdicts=(verdict,))))


def finding(
    fact: str, severity: Severity, confidence: Confidence, *, is_known: bool = False
) -> Finding:
    """Build a finding with this fact."""
    return Finding("Bad.", severity, confidence, (), fact=fact, known=is_known)


def test_several_findings_of_a_rule_are_one_series() -> None:
    """The value is the worst severity that counts, with the highest confidence among equals."""
    found = samples_of_findings(
        finding("b", Severity.LOW, Confidence.CONFIRMED),
        finding("c", Severity.HIGH, Confidence.POSSIBLE),
        finding("a", Severity.HIGH, Confidence.LIKELY),
        finding("d", Severity.CRITICAL, Confidence.CONFIRMED, is_known=True),
    )
    assert [value for _, value in found["ext4audit_finding_severity"]] == [4]
    assert [value for _, value in found["ext4audit_finding_confidence"]] == [2]
    ((labels, _),) = found["ext4audit_finding_info"]
    assert (labels["state"], labels["facts"]) == ("active", "a, b, c")


def test_numbers_of_severity_and_confidence() -> None:
    """Larger numbers mean worse, and more certain."""
    assert [value_of(each) for each in Severity] == [5, 4, 3, 2, 1]
    assert [value_of(each) for each in Confidence] == [3, 2, 1]


def test_every_severity_is_counted() -> None:
    """A series with the value 0 can be compared; a series that vanishes cannot."""
    expected = {severity.value: 0.0 for severity in Severity} | {"critical": 1, "medium": 1}
    assert numbers(samples(CRITICAL), "ext4audit_host_findings", "severity") == expected
    assert sum(numbers(samples(CLEAN_HOST), "ext4audit_host_findings", "severity").values()) == 0


def test_suppressed_and_known_findings_have_no_severity() -> None:
    """An alert on the severity does not fire for them."""
    found = samples(PROCESSED_REPORT)
    states = {labels["rule"]: labels["state"] for labels, _ in found["ext4audit_finding_info"]}
    assert states == {
        "KRN003": "active",
        "PRF002": "active",
        "DUR001": "suppressed",
        "LAY001": "known",
    }
    active = [labels["rule"] for labels, _ in found["ext4audit_finding_severity"]]
    assert sorted(active) == ["KRN003", "PRF002"]
    assert numbers(found, "ext4audit_host_suppressed_findings") == {"db9": 1}
    assert numbers(found, "ext4audit_host_known_findings") == {"db9": 1}
    assert numbers(found, "ext4audit_host_fixed_findings") == {"db9": 1}


def test_gaps_are_counted() -> None:
    """Two rules on two filesystems and a gap of the host make the scan incomplete."""
    found = samples(Audited("x", incomplete_report()))
    assert numbers(found, "ext4audit_host_gaps") == {"db1": 5}
    assert numbers(found, "ext4audit_host_audit_complete") == {"db1": 0}
    assert numbers(found, "ext4audit_host_readable") == {"db1": 1}


def test_unread_host_has_series() -> None:
    """The host is neither readable nor complete, and has no number of findings."""
    found = samples(*FLEET)
    assert numbers(found, "ext4audit_host_readable")["bad.tar.gz"] == 0
    assert numbers(found, "ext4audit_host_audit_complete")["bad.tar.gz"] == 0
    assert "bad.tar.gz" not in numbers(found, "ext4audit_host_findings")
    assert set(samples(UNREADABLE_HOST)) == {
        *("ext4audit_host_readable", "ext4audit_host_audit_complete", "ext4audit_build_info"),
        *("ext4audit_last_run_timestamp_seconds", "ext4audit_last_run_duration_seconds"),
    }


def test_series_about_the_run() -> None:
    """The time is that of the page, in seconds since 1970."""
    found = samples(CLEAN_HOST)
    assert found["ext4audit_last_run_timestamp_seconds"] == [({}, 1767323045)]
    assert found["ext4audit_last_run_duration_seconds"] == [({}, 1.25)]
    assert found["ext4audit_build_info"] == [({"version": "0.1.0"}, 1)]


def assert_well_formed(read: Sequence[Metric]) -> None:
    """Assert that each name and its help occur once, and each series once."""
    names = [family.name for family in read]
    assert len(names) == len(set(names))
    assert all(family.documentation and family.type == "gauge" for family in read)
    series = [(s.name, tuple(sorted(s.labels.items()))) for f in read for s in f.samples]
    assert len(series) == len(set(series))


def test_names_and_series_are_unique() -> None:
    """This holds for hosts with equal filesystems, and for findings with equal labels."""
    assert_well_formed(families(*FLEET))
    assert_well_formed(families(CRITICAL, *(CRITICAL._replace(key=key) for key in ("db2", "db3"))))
    night = critical_report()
    twice = [v._replace(findings=v.findings * 2) for v in night.verdicts]
    double = Audited("x", night._replace(verdicts=tuple(twice)))
    assert_well_formed(families(double))
    assert len(samples(double)["ext4audit_finding_severity"]) == 2
    alike = [md127("/a\x1b"), md127("/a\\x1b")]
    assert_well_formed(families(Audited("x", report(host(*alike), barriers))))
    assert numbers(samples(double), "ext4audit_host_findings", "severity")["critical"] == 2


def test_equal_labels_are_one_series_with_the_worst_value() -> None:
    """The textfile collector refuses a whole file that contains a series twice.

    Two hosts are named by a control character and by its escape, and a data file occurs twice.
    """
    twice = (DataFile("bugs.toml", "kernel_bugs", "2027-01-31"),) * 2
    made = report(host(md127()), barriers)._replace(knowledge=twice)
    read = Audited("x", made._replace(source=LIVE._replace(key="a\x1b")))
    unread = Audited("y", None, "gone", key="a\\x1b")
    for pair in ([read, unread], [unread, read]):
        lines = [line for line in render(pair, PAGE).splitlines() if not line.startswith("#")]
        series = [line.rpartition(" ")[0] for line in lines]
        assert len(set(series)) == len(series)
        assert 'ext4audit_host_readable{host="a\\\\x1b"} 0' in lines


@pytest.mark.parametrize(
    "name", [*HOSTILE_NAMES.values(), 'a"b', "a\\", '{host="x"} 1', "a\\nb"], ids=repr
)
def test_label_is_read_back_unchanged(name: str) -> None:
    """Newlines are kept, as in node_exporter's labels; other control characters are escaped."""
    (labels, _), *_ = samples(Audited("x", hostile_report(name)))["ext4audit_finding_severity"]
    assert labels["mountpoint"] == "\n".join(map(visible, name.split("\n")))
    assert labels["device"] == labels["mountpoint"]


@examples(25)
@given(judged=HOSTS)
def test_any_host_is_read_back(judged: Host) -> None:
    """The counts by severity are those of the report."""
    assert_measured(audit(LIVE, judged, all_rules()))


@some_fixture_hosts(__name__)
def test_every_fixture_host_is_read_back(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    assert_measured(report_of(fixture))


def assert_measured(of: Report) -> None:
    """Assert that the counts by severity are those of the report."""
    read = Audited("x", of)
    assert_well_formed(families(read))
    by_severity = numbers(samples(read), "ext4audit_host_findings", "severity")
    assert sum(by_severity.values()) == len(of.findings)
    ((_, complete),) = samples(read)["ext4audit_host_audit_complete"]
    assert complete == of.complete
