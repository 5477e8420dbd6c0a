"""The text format: one finding, with its evidence and its remedies."""

from __future__ import annotations

from itertools import groupby

from ext4audit.finding import Confidence, Finding, Remedy
from ext4audit.renderers.text_blocks import (
    SEVERITY_STYLES,
    STEP,
    Blank,
    Blocks,
    Look,
    Prose,
    Span,
    Table,
    Verbatim,
)
from ext4audit.renderers.words import PHASE_WORDS, disruption_words
from ext4audit.rule import Rule


def finding_blocks(rule: Rule, finding: Finding, look: Look, indent: int) -> Blocks:
    """Show a finding: what, the consequence, the evidence, and each way to cure it."""
    yield Prose((*_title(rule, finding),), indent, look.severity_marker(finding.severity))
    yield Prose((Span(finding.message),), indent + STEP)
    if finding.citations:
        yield Blank()
        yield Table(finding.citations, indent + 2 * STEP)
    for number, remedy in enumerate(finding.remedies):
        yield Blank()
        yield from _remedy(remedy, "Remedy" if number == 0 else "Or", indent + STEP)


def note_block(rule: Rule, finding: Finding, look: Look, indent: int) -> Prose:
    """Show a finding that only informs, in one line."""
    spans = (*_title(rule, finding), Span(f": {finding.message}"))
    return Prose(spans, indent, look.severity_marker(finding.severity))


def set_aside_block(rule: Rule, finding: Finding, indent: int) -> Prose:
    """Show a finding that does not count, and why, in one line."""
    why = "in the baseline"
    if finding.suppression is not None:
        why = f"suppressed: {finding.suppression.reason}"
    words = f"{finding.severity.value.upper()}  {rule.code} {rule.name} ({why}): {finding.message}"
    return Prose((Span(words, "dim"),), indent)


def _title(rule: Rule, finding: Finding) -> tuple[Span, ...]:
    style = SEVERITY_STYLES[finding.severity]
    sure = finding.confidence is Confidence.CONFIRMED
    return (
        Span(finding.severity.value.upper(), style),
        Span("  "),
        Span(rule.code, "bold"),
        Span(f" {rule.name}"),
        Span("" if sure else f" ({finding.confidence.value})"),
    )


def _remedy(remedy: Remedy, label: str, indent: int) -> Blocks:
    """Show a remedy; its steps keep their order, because a later one may need an earlier."""
    style = "bold red" if remedy.destructive else "bold"
    words = (Span(f"{label} ({disruption_words(remedy)}): ", style), Span(remedy.summary))
    yield Prose(words, indent)
    for phase, steps in groupby(remedy.steps, key=lambda step: step.phase):
        yield Prose((Span(f"{PHASE_WORDS[phase]}:", "dim"),), indent + STEP)
        for step in steps:
            yield Verbatim(step.command, indent + 2 * STEP, "bold")
    if remedy.trade_off is not None:
        yield Prose((Span("Trade-off: ", "dim"), Span(remedy.trade_off)), indent + STEP)
