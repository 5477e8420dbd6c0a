"""The text format of a plan: what is judged and assumed, the report, and the lines to use."""

from __future__ import annotations

from ext4audit.facts.plan import PlanAdvice
from ext4audit.renderers.page import Page
from ext4audit.renderers.text import render_blocks
from ext4audit.renderers.text_blocks import (
    STEP,
    Blank,
    Blocks,
    Look,
    Prose,
    Span,
    Verbatim,
    make_look,
)
from ext4audit.renderers.text_report import report_blocks
from ext4audit.report import Report


def render(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan as text."""
    look = make_look(page.verbosity, ascii_only=page.ascii_only)
    blocks = _blocks(report, advice, look)
    return render_blocks(blocks, color=page.color, width=page.width, ascii_only=page.ascii_only)


def _blocks(report: Report, advice: PlanAdvice, look: Look) -> Blocks:
    if look.verbosity >= 0:
        yield from _head(report, advice)
        yield Blank()
    yield from report_blocks(report, look)
    if look.verbosity >= 0:
        yield Blank()
        yield from _lines(advice)


def _head(report: Report, advice: PlanAdvice) -> Blocks:
    """Say that nothing of this exists, and what was taken for granted."""
    words = " is judged as if it ran: nothing of it exists yet."
    yield Prose((Span("PLAN ", "bold"), Span(report.source.label, "bold"), Span(words)))
    for sentence in advice.assumed:
        yield Prose((Span(sentence, "dim"),), STEP)


def _lines(advice: PlanAdvice) -> Blocks:
    yield Prose((Span("Lines to use", "bold"), Span(_difference(advice))))
    for change in advice.changes:
        yield Prose((Span(f"{change}."),), 2 * STEP, Span("* "))
    for line in advice.lines:
        yield Blank()
        yield Prose((Span(f"{line.purpose}:", "dim"),), STEP)
        yield Verbatim(line.command, 2 * STEP, "bold")


def _difference(advice: PlanAdvice) -> str:
    """Say how the lines differ from the plan, and what the rules say of them."""
    left = ", ".join(advice.left) or "nothing of low severity or worse"
    verdict = f"judged by the same rules, they leave: {left}"
    if not advice.changes:
        return f", as planned ({verdict})"
    return f", with these changes ({verdict}):"
