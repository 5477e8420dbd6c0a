"""The blocks of the whole report and of a plan: paragraphs, the summary line, the commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ext4audit.finding import Severity, listed
from ext4audit.renderers import in_force_of, in_force_text
from ext4audit.renderers.shared import counted
from ext4audit.renderers.shared.rows import INCOMPLETE, completeness
from ext4audit.renderers.shared.subjects import (
    no_filesystem_text,
    set_aside_of,
    subjects,
    verdict_counts,
)
from ext4audit.renderers.text.blocks import (
    SEVERITY_STYLES,
    STEP,
    Blank,
    Block,
    Blocks,
    Look,
    Prose,
    Span,
    Verbatim,
)
from ext4audit.renderers.text.gaps import gap_blocks, short_gap_blocks
from ext4audit.renderers.text.sections import ShownSteps, subject_blocks
from ext4audit.renderers.text.short import finding_paragraphs, header, host_name, script_blocks
from ext4audit.report import FixedFinding, Outcome, PlanAdvice, Report

_Paragraph: TypeAlias = Sequence[Block]
_NAMES_SHOWN = 3
PLAN = "plan"
"""The source kind of a plan, which has a header different from that of a host."""


def report_blocks(report: Report, look: Look) -> Blocks:
    """Yield the report, or only the summary if the look is quiet."""
    if look.verbosity < 0:
        yield _quiet_block(report, look)
        return
    paragraphs = _verbose_paragraphs(report, look) if look.verbose else _paragraphs(report, look)
    yield from _spaced(paragraphs)


def _paragraphs(report: Report, look: Look) -> Iterator[_Paragraph]:
    """Yield the default report; for a clean host it is a few lines, none of them empty."""
    fixed = (*_fixed_blocks(report), *_notice_blocks(report))
    end = (*fixed, *short_gap_blocks(report), summary_block(report, look))
    head = () if report.source.kind == PLAN else (header(report),)
    *whole, rest = finding_paragraphs(report, look)
    if any(whole):
        yield from (head, *whole, rest, end)
    else:
        yield (*head, *rest, *end)


def _verbose_paragraphs(report: Report, look: Look) -> Iterator[_Paragraph]:
    """Yield every subject with every verdict, and every gap."""
    if report.source.kind != PLAN:
        yield (header(report),)
    if not report.host.filesystems:
        yield (Prose((Span(no_filesystem_text(report, f"host {report.key}")),)),)
    host = report.host._replace(name=report.key)
    shown: ShownSteps = {}
    for subject in subjects(report):
        yield tuple(subject_blocks(subject, host, look, shown))
    yield tuple(gap_blocks(report))
    every = (_fixed_block(gone.rule, (gone,)) for gone in report.fixed or ())
    yield (*every, *_notice_blocks(report))
    yield (*script_blocks(report, look), summary_block(report, look))


def _fixed_blocks(report: Report) -> Blocks:
    """Yield the findings fixed since the baseline, one line for each rule."""
    by_rule: dict[str, list[FixedFinding]] = {}
    for gone in report.fixed or ():
        by_rule.setdefault(gone.rule, []).append(gone)
    yield from (_fixed_block(rule, same) for rule, same in by_rule.items())


def _fixed_block(rule: str, same: Sequence[FixedFinding]) -> Prose:
    """Return the fixed findings of a rule with their subjects; a single one has its message."""
    names = list(dict.fromkeys(gone.subject for gone in same))
    message = f": {same[0].message}" if len(same) == 1 else ""
    return Prose((Span(f"fixed: {rule} on {listed(names, _NAMES_SHOWN)}{message}", "green"),))


def _notice_blocks(report: Report) -> Blocks:
    """Yield the notices on the policy file."""
    for notice in report.notices:
        yield Prose((Span(f"policy: {notice}.", "yellow"),))


def _spaced(paragraphs: Iterator[_Paragraph]) -> Blocks:
    """Yield the paragraphs with empty lines between them."""
    for number, paragraph in enumerate(filter(None, paragraphs)):
        if number:
            yield Blank()
        yield from paragraph


def summary_block(report: Report, look: Look) -> Prose:
    """Return the summary line: findings, checks passed, completeness, and the policy."""
    aside = "".join(f", {each}" for each in set_aside_of(report).texts())
    return Prose(
        (
            Span(f"{counted(len(report.host.filesystems), 'filesystem')}: "),
            *_findings(report),
            Span(f"{aside}; {_checks(report)}; "),
            _completeness(report, look.threshold),
            Span(f"{in_force_text(in_force_of(report.policy, report.knowledge))}."),
        )
    )


def _quiet_block(report: Report, look: Look) -> Prose:
    name = report.source.label if report.source.kind == PLAN else host_name(report)
    return Prose((Span(f"{name}: ", "bold"), *summary_block(report, look).spans))


def _findings(report: Report) -> tuple[Span, ...]:
    severities = Counter(finding.severity for finding in report.counted)
    found = [
        Span(f"{severities[severity]} {severity.value}", SEVERITY_STYLES[severity])
        for severity in Severity
        if severities[severity]
    ]
    spans = [span for each in found for span in (Span(", "), each)]
    if set(severities) == {Severity.INFO}:
        return (Span("no problems; "), *spans[1:])
    return tuple(spans[1:]) if spans else (Span("no findings"),)


def _checks(report: Report) -> str:
    """Return the numbers of passed checks and of errors."""
    outcomes = verdict_counts(report)
    text = f"{counted(outcomes[Outcome.PASS], 'check')} passed"
    errors = outcomes[Outcome.ERROR]
    return f"{text}, {errors} stopped with an error" if errors else text


def _completeness(report: Report, threshold: Severity | None) -> Span:
    """Return the completeness as in the exit code: gaps below the threshold do not matter."""
    state = completeness(report, threshold)
    return Span(state, "bold magenta" if state == INCOMPLETE else "green")


def plan_blocks(report: Report, advice: PlanAdvice, look: Look) -> Blocks:
    """Yield the report of a plan, with its assumptions before it and its commands after it."""
    if look.verbosity >= 0:
        yield from _plan_head(report, advice)
        yield Blank()
    yield from report_blocks(report, look)
    if look.verbosity >= 0:
        yield Blank()
        yield from _plan_lines(advice)


def _plan_head(report: Report, advice: PlanAdvice) -> Blocks:
    """Yield a note that the filesystem does not exist yet, and the assumptions."""
    text = " does not exist yet; it is audited as planned."
    yield Prose((Span("PLAN ", "bold"), Span(report.source.label, "bold"), Span(text)))
    for sentence in advice.assumed:
        yield Prose((Span(sentence, "dim"),), STEP)


def _plan_lines(advice: PlanAdvice) -> Blocks:
    yield Prose((Span("Commands to use", "bold"), Span(_difference(advice))))
    for change in advice.changes:
        yield Prose((Span(f"{change}."),), 2 * STEP, Span("* "))
    for line in advice.lines:
        yield Blank()
        yield Prose((Span(f"{line.purpose}:", "dim"),), STEP)
        yield Verbatim(line.command, 2 * STEP, "bold")


def _difference(advice: PlanAdvice) -> str:
    """Return how the commands differ from the plan, and the findings that remain with them."""
    left = ", ".join(advice.left) or "nothing of low severity or worse"
    verdict = f"the same rules then report: {left}"
    if not advice.changes:
        return f", as planned ({verdict})"
    return f", with these changes ({verdict}):"
