"""The sections of the text format with -v: subjects with all verdicts, evidence and remedies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ext4audit.evidence import for_wording
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Finding, Remedy, Step, listed
from ext4audit.renderers.shared import (
    PHASE_TEXT,
    counted,
    disruption_text,
    doubt_text,
    held_text,
    remedy_label,
    stack_text,
    type_text,
)
from ext4audit.renderers.shared.commands import phases
from ext4audit.renderers.shared.rows import where
from ext4audit.renderers.shared.subjects import Subject, is_shut_down
from ext4audit.renderers.text.blocks import (
    DIFF_STYLES,
    NOT_APPLICABLE_MARKER,
    SEVERITY_STYLES,
    STEP,
    UNKNOWN_MARKER,
    Blank,
    Blocks,
    Columns,
    Look,
    Prose,
    Span,
    Verbatim,
)
from ext4audit.report import Outcome
from ext4audit.rule import Rule

_POINTS_IN_TITLE = 8
"""A filesystem of containers has thousands of bind mounts: the others are counted."""

ShownSteps: TypeAlias = dict[tuple[Step, ...], str]
"""The finding that shows the steps of each remedy, to show those of the whole host only once."""


def subject_blocks(subject: Subject, host: Host, look: Look, shown: ShownSteps) -> Blocks:
    """Yield a subject with all its verdicts, or nothing for a host without verdicts."""
    if subject.filesystem is None and not subject.verdicts:
        return
    title = (*_subject_title(subject, host), _undetermined(subject))
    yield Prose(title, 0, _marker(subject, look))
    for rule, finding in subject.findings:
        yield Blank()
        place = f" ({where(subject.filesystem)})" if subject.filesystem else ""
        yield from _finding_blocks(rule, finding, look, f"{rule.code}{place}", shown)
    yield from (_set_aside_block(rule, f) for rule, f in subject.set_aside)
    yield from _judged(subject, look)


def _marker(subject: Subject, look: Look) -> Span:
    """Return the marker of the worst finding; a gap never has the marker of a pass."""
    if subject.problems:
        return look.severity_marker(subject.problems[0][1].severity)
    return UNKNOWN_MARKER if subject.undetermined else look.fine_marker()


def _subject_title(subject: Subject, host: Host) -> tuple[Span, ...]:
    if subject.filesystem is None:
        return (Span(f"host {host.name}", "bold"),)
    fs = subject.filesystem
    where = f" on {listed(fs.mount_points, _POINTS_IN_TITLE)}" if fs.mount_points else ""
    return (Span(fs.device, "bold"), Span(where, "bold"), Span(f": {_filesystem_facts(fs)}"))


def _filesystem_facts(fs: Filesystem) -> str:
    facts = [type_text(fs), stack_text(fs)]
    if is_shut_down(fs):
        facts.append("shut down after an error: it refuses all writes")
    elif for_wording(fs.read_only, default=False):
        facts.append("read-only")
    if not fs.alive:
        facts.append("not mounted")
    elif not fs.mounts:
        facts.append(
            "where it is mounted is not known"
            if fs.unlisted
            else f"not mounted here ({held_text(fs)})"
        )
    return ", ".join(facts)


def _undetermined(subject: Subject) -> Span:
    """Return the number of partly or wholly undetermined rules, as text."""
    text = f"; {counted(len(subject.undetermined), 'rule')} not determined"
    return Span(text if subject.undetermined else "", "magenta")


def _judged(subject: Subject, look: Look) -> Blocks:
    """Yield the rules that passed with their evidence, and those that do not apply and why."""
    passed = subject.with_outcome(Outcome.PASS)
    not_applicable = subject.with_outcome(Outcome.NOT_APPLICABLE)
    if passed or not_applicable:
        yield Blank()
    for verdict in passed:
        yield Prose((Span(f"passed {verdict.rule.title}"),), STEP, look.fine_marker())
        if verdict.evidence:
            yield _evidence_table(verdict.evidence)
    for verdict in not_applicable:
        reason = f"does not apply: {verdict.rule.title}, {verdict.note}"
        yield Prose((Span(reason, "dim"),), STEP, NOT_APPLICABLE_MARKER)


def _finding_blocks(
    rule: Rule, finding: Finding, look: Look, here: str, shown: ShownSteps
) -> Blocks:
    """Yield a finding: the rule, the consequence, the evidence, and each remedy.

    `here` is what `shown` calls the finding.
    """
    yield Prose(finding_title(rule, finding), STEP, look.severity_marker(finding.severity))
    yield Prose((Span(finding.message),), 2 * STEP)
    if finding.citations:
        yield Blank()
        yield _evidence_table(finding.citations)
    for index, remedy in enumerate(finding.remedies):
        yield Blank()
        before = shown.setdefault(remedy.steps, here) if remedy.steps else here
        yield from _remedy(remedy, remedy_label(index), "" if before == here else before)


def _evidence_table(citations: Iterable[Citation]) -> Columns:
    """Return citations as aligned rows of label, value and origin."""
    rows = (
        (Span(cited.label), Span(cited.value, "bold"), Span(f"({cited.origin})", "dim"))
        for cited in citations
    )
    return Columns(tuple(rows), 3 * STEP, fixed=1)


def _set_aside_block(rule: Rule, finding: Finding) -> Prose:
    """Return a finding that does not count, and why, in one line."""
    why = "in the baseline"
    if finding.suppression is not None:
        why = f"suppressed: {finding.suppression.reason}"
    text = f"{finding.severity.value.upper()}  {rule.title} ({why}): {finding.message}"
    return Prose((Span(text, "dim"),), STEP)


def finding_title(rule: Rule, finding: Finding) -> tuple[Span, ...]:
    """Return the severity and the rule of a finding, and its confidence unless confirmed."""
    return (
        Span(finding.severity.value.upper(), SEVERITY_STYLES[finding.severity]),
        Span("  "),
        Span(rule.code, "bold"),
        Span(f" {rule.name}"),
        Span(doubt_text(finding)),
    )


def remedy_title(remedy: Remedy, label: str, indent: int) -> Prose:
    """Return what a remedy does and interrupts, in red if it destroys data."""
    title = f"{label} ({disruption_text(remedy)}): "
    style = "bold red" if remedy.destructive else "bold"
    return Prose((Span(title, style), Span(remedy.summary)), indent)


def _remedy(remedy: Remedy, label: str, before: str) -> Blocks:
    """Yield a remedy with its steps in order, because a later one may depend on an earlier one.

    `before` is the finding above that shows the same steps, or "".
    """
    indent = 2 * STEP
    yield remedy_title(remedy, label, indent)
    if before:
        yield Prose((Span(f"The commands are those of {before} above."),), indent + STEP)
    for part in () if before else phases(remedy):
        yield Prose((Span(f"{PHASE_TEXT[part.phase]}:", "dim"),), indent + STEP)
        yield from (Verbatim(text, indent + 2 * STEP, DIFF_STYLES[k]) for k, text in part.diff)
        yield from (Verbatim(command, indent + 2 * STEP, "bold") for command in part.commands)
    if remedy.trade_off is not None:
        yield Prose((Span("Trade-off: ", "dim"), Span(remedy.trade_off)), indent + STEP)
