"""Prometheus: a file for node_exporter's textfile collector, rewritten by each run.

`ext4audit_finding` has a series for each finding that counts, so an alert on it needs an action.
Findings that the policy accepts or that the baseline has are series of two other metrics.
`ext4audit_undetermined` counts gaps, and a host that could not be read has
`ext4audit_host_audited` 0: a missing series does not prove that nothing was found.

No sample has a timestamp, because the collector refuses a file that has one
(prometheus/node_exporter, collector/textfile.go). HELP and TYPE stand once for each metric,
before its samples (Prometheus text format 0.0.4).
"""

from __future__ import annotations

from calendar import timegm
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import strptime
from typing import TypeAlias

from ext4audit.finding import Severity
from ext4audit.renderers.shared import (
    Audited,
    Page,
    named_hosts,
    named_reports,
    policy_in_force,
    visible,
)
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    KNOWN,
    SUPPRESSED,
    Row,
    first_mount_point,
    gaps,
    rows,
)
from ext4audit.report import Report

_Labels: TypeAlias = Mapping[str, str]
_Sample: TypeAlias = tuple[_Labels, float]
_Named: TypeAlias = Sequence[tuple[str, Report]]

_SERIES = (
    ("ext4audit_finding", ACTIVE, "A finding that counts."),
    ("ext4audit_suppressed_finding", SUPPRESSED, "A finding that the policy accepts."),
    ("ext4audit_known_finding", KNOWN, "A finding that the baseline has."),
)
_COUNTS = (
    ("ext4audit_suppressed_findings", SUPPRESSED, "Findings that the policy accepts."),
    ("ext4audit_known_findings", KNOWN, "Findings that the baseline has."),
)


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the samples of all hosts, ended by a newline."""
    read = named_reports(hosts)
    run = _of_run(page, policy_in_force(hosts))
    lines = [*_of_findings(read), *_of_hosts(named_hosts(hosts), read), *run]
    return "".join(f"{line}\n" for line in lines)


def _of_findings(read: _Named) -> Iterator[str]:
    found = {name: rows(name, report) for name, report in read}
    every = [row for each in found.values() for row in each]
    for metric, state, text in _SERIES:
        yield from _metric(metric, text, [(_labels(r), 1) for r in every if r.state == state])
    yield from _metric("ext4audit_findings", "Findings that count.", _by_severity(found))
    for metric, state, text in _COUNTS:
        numbers = [
            ({"host": name}, sum(row.state == state for row in each))
            for name, each in found.items()
        ]
        yield from _metric(metric, text, numbers)
    fixed = [({"host": name}, len(each.fixed)) for name, each in read if each.fixed is not None]
    yield from _metric("ext4audit_fixed_findings", "Findings of the baseline that are gone.", fixed)


def _labels(row: Row) -> _Labels:
    fs = row.filesystem
    return {
        "host": row.host,
        "rule": row.rule.code,
        "severity": row.finding.severity.value,
        "confidence": row.finding.confidence.value,
        "mountpoint": first_mount_point(fs),
        "device": fs.device if fs else "",
        "uuid": (fs.uuid or "") if fs else "",
        "fact": row.finding.fact,
    }


def _by_severity(found: Mapping[str, Sequence[Row]]) -> Iterator[_Sample]:
    """Yield a number for every severity, 0 included: an alert cannot compare a missing series."""
    for name, each in found.items():
        numbers = Counter(row.finding.severity for row in each if row.state == ACTIVE)
        for severity in Severity:
            yield {"host": name, "severity": severity.value}, numbers[severity]


def _of_hosts(named: Sequence[tuple[str, Audited]], read: _Named) -> Iterator[str]:
    yield from _metric(
        "ext4audit_undetermined",
        "Rules that could not be judged, or not wholly, and gaps in the view of the host.",
        [({"host": name}, len(gaps(name, report))) for name, report in read],
    )
    yield from _metric(
        "ext4audit_scan_complete",
        "Whether nothing that was asked remained unknown.",
        [({"host": n}, host.report is not None and host.report.complete) for n, host in named],
    )
    yield from _metric(
        "ext4audit_host_audited",
        "Whether the host could be read at all.",
        [({"host": name}, host.report is not None) for name, host in named],
    )


def _of_run(page: Page, policy: str | None) -> Iterator[str]:
    if policy is not None:
        text = "The policy file in force."
        yield from _metric("ext4audit_policy_info", text, [({"path": policy}, 1)])
    ended = timegm(strptime(page.taken_at, "%Y-%m-%dT%H:%M:%SZ"))
    run = "ext4audit_last_run_timestamp_seconds"
    yield from _metric(run, "When the audit ended, in seconds since 1970.", [({}, ended)])
    took = "ext4audit_scan_duration_seconds"
    yield from _metric(took, "How long the audit took.", [({}, round(page.seconds, 3))])
    info = "ext4audit_build_info"
    yield from _metric(info, "The version that audited.", [({"version": page.tool_version}, 1)])


def _metric(name: str, text: str, samples: Iterable[_Sample]) -> Iterator[str]:
    """Yield a metric's lines; two findings with the same labels are one series."""
    lines = [f"{name}{_braces(labels)} {value:.15g}" for labels, value in samples]
    if lines:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
    yield from dict.fromkeys(lines)


def _braces(labels: _Labels) -> str:
    inner = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    r"""Return a label's value; a newline stays one (`\n`), as in the labels of node_exporter."""
    lines = [visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in value.split("\n")]
    return "\\n".join(lines)
