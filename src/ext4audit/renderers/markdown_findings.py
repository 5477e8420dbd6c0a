"""Markdown: one finding with its evidence and remedies, and the findings that do not count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ext4audit.finding import Confidence, Phase, Remedy, Step
from ext4audit.renderers.markdown_text import code, code_block, prose, table
from ext4audit.renderers.rows import THE_HOST, Blind, Row
from ext4audit.renderers.words import PHASE_WORDS, disruption_words


def finding_parts(row: Row) -> Iterator[str]:
    """Yield the section of a finding: the consequence, the evidence, and each way to cure it."""
    finding = row.finding
    sure = finding.confidence is Confidence.CONFIRMED
    doubt = "" if sure else f" ({finding.confidence.value})"
    severity = finding.severity.value.upper()
    title = f"{row.rule.code} {prose(row.rule.name)}{doubt}: {subject(row)}"
    yield f"### {severity} {title}"
    yield prose(finding.message)
    if finding.citations:
        cited = [(prose(c.label), code(c.value), code(c.origin)) for c in finding.citations]
        yield table(("Evidence", "Value", "Read from"), cited)
    for number, remedy in enumerate(finding.remedies):
        yield from _remedy(remedy, "Remedy" if number == 0 else "Or")


def subject(row: Row | Blind) -> str:
    """Return what a row is about."""
    return THE_HOST if row.filesystem is None else code(row.where)


def _remedy(remedy: Remedy, label: str) -> Iterator[str]:
    """Yield a remedy; what undoes it has a block of its own, because blocks are copied whole."""
    yield f"**{label}** ({disruption_words(remedy)}): {prose(remedy.summary)}"
    undo = [step for step in remedy.steps if step.phase is Phase.ROLLBACK]
    cure = [step for step in remedy.steps if step.phase is not Phase.ROLLBACK]
    if cure:
        yield code_block(list(_commands(cure)), "sh")
    if remedy.trade_off is not None:
        yield f"Trade-off: {prose(remedy.trade_off)}"
    if undo:
        yield "To undo it:"
        yield code_block([step.command for step in undo], "sh")


def _commands(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the commands in their order; a later one may need an earlier."""
    for phase, same in groupby(steps, key=lambda step: step.phase):
        yield f"# {PHASE_WORDS[phase]}"
        yield from (step.command for step in same)


def set_aside_table(aside: Sequence[Row]) -> str:
    """Return the findings that do not count, each with the reason."""
    head = ("Severity", "Rule", "Where", "Finding", "Why it does not count")
    return table(head, [_aside(row) for row in aside])


def _aside(row: Row) -> tuple[str, ...]:
    finding = row.finding
    rule = f"{row.rule.code} {prose(row.rule.name)}"
    return finding.severity.value, rule, subject(row), prose(finding.message), prose(_why(row))


def _why(row: Row) -> str:
    said = row.finding.suppression
    if said is None:
        return "in the baseline"
    owner = f", {said.owner}" if said.owner else ""
    until = f", until {said.expires}" if said.expires else ""
    return f"suppressed: {said.reason}{owner}{until}"
