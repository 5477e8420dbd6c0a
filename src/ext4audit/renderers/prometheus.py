"""Prometheus: a file for node_exporter's textfile collector, rewritten by each run.

A series of `ext4audit_finding_severity` represents the findings that count of one rule on one
filesystem. Its labels identify host, rule and filesystem, so the series persists as long as the
finding; only its value and the labels of `ext4audit_finding_info` can change. An alert on it
should require action, so findings that are suppressed or in the baseline are in `_info` only,
with their state.

Metrics of whole hosts begin with `ext4audit_host_`. A host that could not be read has
`ext4audit_host_readable` 0, and gaps are counted: a missing series does not prove that nothing was
found. Metrics of the run begin with `ext4audit_last_run_`.

No sample has a timestamp, because the collector rejects a file that has one
(prometheus/node_exporter, collector/textfile.go). HELP and TYPE appear once for each metric,
before its samples (Prometheus text format 0.0.4). docs/prometheus/ has alert rules and a dashboard.
"""

from __future__ import annotations

from calendar import timegm
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import strptime
from typing import TypeAlias

from ext4audit.finding import Confidence, Severity
from ext4audit.renderers import Audited, Page, in_force, named_reports, visible
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    KNOWN,
    SUPPRESSED,
    Row,
    first_mount_point,
    gaps,
    rows,
)
from ext4audit.report import PlanAdvice, Report

_Labels: TypeAlias = Mapping[str, str]
_Sample: TypeAlias = tuple[_Labels, float]
_Named: TypeAlias = Sequence[tuple[str, Report]]

_STATES = (ACTIVE, KNOWN, SUPPRESSED)
"""The states of findings; a series with several findings has the first state that occurs."""
_COUNTS = (
    ("ext4audit_host_suppressed_findings", SUPPRESSED, "Findings that the policy accepts."),
    ("ext4audit_host_known_findings", KNOWN, "Findings that the baseline has."),
)


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the samples of all hosts, with a final newline."""
    read = named_reports(hosts)
    found = {name: rows(name, report) for name, report in read}
    lines = [
        *_of_findings([row for each in found.values() for row in each]),
        *_counts(found, read),
        *_of_hosts(hosts, read, page),
        *_of_run(page, in_force(hosts).get("policy")),
        *_of_data(read),
    ]
    return "".join(f"{line}\n" for line in lines)


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the samples of a plan's report, with the recommended commands as comments."""
    lines = (visible(f"# plan: {line.purpose}: {line.command}") for line in advice.lines)
    text = render([Audited(report.source.label, report)], page)
    return "".join((text, *(f"{line}\n" for line in lines)))


def _of_findings(found: Sequence[Row]) -> Iterator[str]:
    """Yield the metrics that have a series for each rule and filesystem with findings."""
    series = [_shown(same) for same in _by_subject(found)]
    worst = [each[0] for each in series if each[0].state == ACTIVE]
    yield from _metric(
        "ext4audit_finding_severity",
        "Severity of the worst finding of a rule that counts: 5 critical to 1 info.",
        [(_subject(row), value_of(row.finding.severity)) for row in worst],
    )
    yield from _metric(
        "ext4audit_finding_confidence",
        "Confidence of that finding: 3 confirmed, 2 likely, 1 possible.",
        [(_subject(row), value_of(row.finding.confidence)) for row in worst],
    )
    text = "Name of the rule, state of its findings, and what they are about."
    yield from _metric("ext4audit_finding_info", text, [(_info(each), 1) for each in series])


def value_of(ranked: Severity | Confidence) -> int:
    """Return a severity or a confidence as a number: the lowest is 1, critical 5, confirmed 3."""
    return len(type(ranked)) - ranked.rank


def _by_subject(found: Sequence[Row]) -> Iterable[list[Row]]:
    """Return the rows of each series; names that are equal after escaping share one."""
    series: dict[str, list[Row]] = {}
    for row in found:
        series.setdefault(_braces(_subject(row)), []).append(row)
    return series.values()


def _subject(row: Row) -> _Labels:
    """Return the labels that identify a series; device and mountpoint match node_exporter's."""
    fs = row.filesystem
    return {
        "host": row.host,
        "rule": row.rule.code,
        "device": fs.device if fs else "",
        "mountpoint": first_mount_point(fs),
        "uuid": (fs.uuid or "") if fs else "",
    }


def _shown(same: Sequence[Row]) -> list[Row]:
    """Return the rows that have the state of their series, the worst and most certain first."""
    state = next(state for state in _STATES if any(row.state == state for row in same))
    shown = [row for row in same if row.state == state]
    return sorted(shown, key=_weight, reverse=True)


def _weight(row: Row) -> tuple[int, int]:
    return value_of(row.finding.severity), value_of(row.finding.confidence)


def _info(series: Sequence[Row]) -> _Labels:
    facts = dict.fromkeys(sorted(filter(None, (row.finding.numbered_fact for row in series))))
    worst = series[0]
    return {
        **_subject(worst),
        "name": worst.rule.name,
        "state": worst.state,
        "facts": ", ".join(facts),
    }


def _counts(found: Mapping[str, Sequence[Row]], read: _Named) -> Iterator[str]:
    """Yield the metrics that count the findings of each host."""
    text = "Findings that count, by severity."
    yield from _metric("ext4audit_host_findings", text, _by_severity(found))
    for metric, state, text in _COUNTS:
        numbers = [
            ({"host": name}, sum(row.state == state for row in each))
            for name, each in found.items()
        ]
        yield from _metric(metric, text, numbers)
    fixed = [({"host": name}, len(each.fixed)) for name, each in read if each.fixed is not None]
    text = "Findings of the baseline that are gone."
    yield from _metric("ext4audit_host_fixed_findings", text, fixed)


def _by_severity(found: Mapping[str, Sequence[Row]]) -> Iterator[_Sample]:
    """Yield a number for every severity, 0 included: an alert cannot compare a missing series."""
    for name, each in found.items():
        numbers = Counter(row.finding.severity for row in each if row.state == ACTIVE)
        for severity in Severity:
            yield {"host": name, "severity": severity.value}, numbers[severity]


def _of_hosts(hosts: Sequence[Audited], read: _Named, page: Page) -> Iterator[str]:
    yield from _metric(
        "ext4audit_host_gaps",
        "Rules that could not be determined completely, and missing evidence of the host.",
        [({"host": name}, len(gaps(name, report))) for name, report in read],
    )
    yield from _metric(
        "ext4audit_host_audit_complete",
        "Whether no gap could hide a finding that fails the audit (--fail-on).",
        [
            ({"host": host.name}, bool(host.report and host.report.complete_for(page.threshold)))
            for host in hosts
        ],
        worst=min,
    )
    yield from _metric(
        "ext4audit_host_readable",
        "Whether the host could be read at all.",
        [({"host": host.name}, host.report is not None) for host in hosts],
        worst=min,
    )


def _of_data(read: Sequence[tuple[str, Report]]) -> Iterator[str]:
    """Yield the metric of newer data files, which are the same for all hosts of a run."""
    files = next((report.knowledge for _, report in read if report.knowledge), ())
    if files:
        samples = [
            ({"path": each.path, "table": each.table}, timegm(strptime(each.dated, "%Y-%m-%d")))
            for each in files
        ]
        text = "The dates of newer data files in force, in seconds since 1970."
        yield from _metric("ext4audit_knowledge_date_seconds", text, samples)


def _of_run(page: Page, policy: str | None) -> Iterator[str]:
    if policy is not None:
        text = "The policy file in force."
        yield from _metric("ext4audit_policy_info", text, [({"path": policy}, 1)])
    ended = timegm(strptime(page.taken_at, "%Y-%m-%dT%H:%M:%SZ"))
    run = "ext4audit_last_run_timestamp_seconds"
    yield from _metric(run, "When the last run ended, in seconds since 1970.", [({}, ended)])
    took = "ext4audit_last_run_duration_seconds"
    yield from _metric(took, "How long the last run took.", [({}, round(page.seconds, 3))])
    info = "ext4audit_build_info"
    yield from _metric(info, "The version that audited.", [({"version": page.tool_version}, 1)])


def _metric(
    name: str,
    text: str,
    samples: Iterable[_Sample],
    worst: Callable[[float, float], float] = max,
) -> Iterator[str]:
    """Yield the lines of a metric, or nothing without samples.

    Names that are equal after escaping share a series, which has the worst value: the collector
    rejects the whole file if a series occurs twice.
    """
    values: dict[str, float] = {}
    for labels, value in samples:
        series = _braces(labels)
        values[series] = worst(values.get(series, value), value)
    lines = [f"{name}{series} {value:.15g}" for series, value in values.items()]
    if lines:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
    yield from lines


def _braces(labels: _Labels) -> str:
    inner = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    r"""Return an escaped label value; a newline is kept (as `\n`), as in node_exporter's labels."""
    lines = [visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in value.split("\n")]
    return "\\n".join(lines)
