"""The text format as paragraphs: the whole report and its summary line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ext4audit.finding import Severity
from ext4audit.renderers.shared.subjects import subjects
from ext4audit.renderers.shared.words import counted
from ext4audit.renderers.text.blocks import SEVERITY_STYLES, Blank, Block, Blocks, Look, Prose, Span
from ext4audit.renderers.text.sections import subject_blocks, unknown_blocks
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


_Paragraph: TypeAlias = Sequence[Block]


def report_blocks(report: Report, look: Look) -> Blocks:
    """Show the report; the quiet look is the summary alone."""
    if look.verbosity >= 0:
        yield from _spaced(_paragraphs(report, look))
    yield summary_block(report)


def _paragraphs(report: Report, look: Look) -> Iterator[_Paragraph]:
    if not report.host.filesystems:
        yield (_no_filesystems(report),)
    for subject in subjects(report):
        yield tuple(subject_blocks(subject, report.host, look))
    yield tuple(unknown_blocks(report, look))
    yield tuple(_policy_blocks(report))


def _policy_blocks(report: Report) -> Blocks:
    """Show what is fixed since the baseline, and what the policy file must be told of."""
    for gone in report.fixed or ():
        words = f"fixed: {gone.rule} on {gone.subject}: {gone.message}"
        yield Prose((Span(words, "green"),))
    for notice in report.notices:
        yield Prose((Span(f"policy: {notice}.", "yellow"),))


def _spaced(paragraphs: Iterator[_Paragraph]) -> Blocks:
    """Separate the paragraphs by empty lines; filesystems of one line stand close together."""
    before: _Paragraph = ()
    for paragraph in filter(None, paragraphs):
        if before and (len(before) > 1 or len(paragraph) > 1):
            yield Blank()
        yield from paragraph
        before = paragraph
    yield Blank()


def _no_filesystems(report: Report) -> Prose:
    """Say that there is no ext4; with gaps, that none could be seen, which is not the same."""
    name = report.host.name
    if report.host.gaps:
        return Prose((Span(f"No ext4 filesystem could be seen on host {name}."),))
    return Prose((Span(f"There is no ext4 filesystem on host {name}: nothing to audit."),))
