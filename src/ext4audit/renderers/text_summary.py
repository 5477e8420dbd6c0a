"""The text format: the last line, which says all in one."""

from __future__ import annotations

from collections import Counter

from ext4audit.finding import Severity
from ext4audit.renderers.text_blocks import SEVERITY_STYLES, Prose, Span
from ext4audit.renderers.words import counted
from ext4audit.report import Outcome, Report

_COUNTED = (
    (Outcome.PASS, "passed"),
    (Outcome.NOT_APPLICABLE, "not applicable"),
    (Outcome.UNDETERMINED, "undetermined"),
    (Outcome.ERROR, "stopped with an error"),
)


def summary_block(report: Report) -> Prose:
    """Sum up: the host, its filesystems, the findings, the verdicts, and whether that is all."""
    # A host can be called "::error"; GitHub obeys a log line that begins so, indented or not.
    subject = "image" if report.source.kind == "image" else "host"
    host = Span(f"{subject} {report.host.name}", "bold")
    filesystems = f": {counted(len(report.host.filesystems), 'filesystem')}; "
    return Prose(
        (
            host,
            Span(filesystems),
            *_findings(report),
            Span(f"{_set_aside(report)}; {_verdicts(report)}; "),
            _end(report),
        )
    )


def _findings(report: Report) -> tuple[Span, ...]:
    severities = Counter(finding.severity for finding in report.counted)
    found = [
        Span(f"{severities[severity]} {severity.value}", SEVERITY_STYLES[severity])
        for severity in Severity
        if severities[severity]
    ]
    spans = [span for each in found for span in (Span(", "), each)]
    return tuple(spans[1:]) if spans else (Span("no findings"),)


def _set_aside(report: Report) -> str:
    """Count what does not count: suppressed, known from a baseline, and fixed since."""
    known = sum(finding.known and finding.suppression is None for finding in report.findings)
    words = [f"{report.suppressed} suppressed"] if report.suppressed else []
    if report.fixed is not None:
        words += [f"{known} in the baseline", f"{len(report.fixed)} fixed"]
    return "".join(f", {each}" for each in words)


def _verdicts(report: Report) -> str:
    """Count the outcomes; those that ask for attention are left out when there are none."""
    outcomes = Counter(verdict.outcome for verdict in report.verdicts)
    return ", ".join(
        f"{outcomes[outcome]} {words}"
        for outcome, words in _COUNTED
        if outcomes[outcome] or outcome is not Outcome.ERROR
    )


def _end(report: Report) -> Span:
    if report.complete:
        return Span("audit complete", "green")
    return Span("audit INCOMPLETE", "bold magenta")
