"""The HTML report: what a subject's rules said, from the findings to what does not apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Unknown
from ext4audit.finding import Severity
from ext4audit.renderers.html_findings import finding_part
from ext4audit.renderers.html_markup import NOTHING, Html, joined, lines, tag
from ext4audit.renderers.html_parts import badge, fold, table
from ext4audit.renderers.shared.subjects import Subject
from ext4audit.renderers.shared.words import counted, listed, why_words
from ext4audit.report import Outcome, Verdict


def findings_part(subject: Subject) -> Html:
    """Return the findings that count, worst first; those that only inform are folded."""
    if not subject.findings:
        return tag("p", _nothing_found(subject))
    return lines(
        finding_part(rule, finding, shown=finding.severity is not Severity.INFO)
        for rule, finding in subject.findings
    )


def _nothing_found(subject: Subject) -> Html:
    """Say that nothing was found, which is fine only where nothing stayed open."""
    spared = subject.with_outcome(Outcome.NOT_APPLICABLE)
    if len(spared) == len(subject.verdicts):
        return joined((badge("NOT JUDGED", "info"), " No rule applies."))
    if subject.open:
        words = f" No findings, but {counted(len(subject.open), 'rule')} could not be judged."
        return joined((badge("INCOMPLETE", "open"), words))
    if subject.set_aside:
        return joined((badge("SET ASIDE", "info"), " All that was found is set aside, see below."))
    return joined((badge("NO FINDINGS", "fine"), " All the rules that apply have passed."))


def judged_parts(subject: Subject) -> Iterator[Html]:
    """Yield the blind spots, and folded: what is set aside, what passed, what does not apply."""
    yield _blind_spots(subject)
    yield _set_aside(subject)
    passed = subject.with_outcome(Outcome.PASS)
    if passed:
        rows = [(verdict.rule.code, verdict.rule.name, _evidence(verdict)) for verdict in passed]
        yield _folded(f"{counted(len(rows), 'rule')} passed", "Evidence", rows)
    spared = subject.with_outcome(Outcome.NOT_APPLICABLE)
    if spared:
        rows = [(each.rule.code, each.rule.name, _reason(each)) for each in spared]
        yield _folded(f"{counted(len(rows), 'rule')} not applicable", "Reason", rows)


def _folded(summary: str, head: str, rows: Sequence[tuple[str, str, Html]]) -> Html:
    return fold(summary, tag("div", table(("Rule", "Name", head), rows, summary), class_="scroll"))


def _reason(verdict: Verdict) -> Html:
    return joined((verdict.note or "",))


def _evidence(verdict: Verdict) -> Html:
    """Return what a pass rests on, one thing a line."""
    return joined(
        tag("div", f"{each.label}: ", tag("code", each.value), f" ({each.origin})")
        for each in verdict.evidence
    )


def _set_aside(subject: Subject) -> Html:
    aside = subject.set_aside
    if not aside:
        return NOTHING
    summary = f"{counted(len(aside), 'finding')} set aside (suppressed, or in the baseline)"
    parts = [finding_part(rule, finding, shown=True) for rule, finding in aside]
    return fold(summary, *parts, printed=True)


def _blind_spots(subject: Subject) -> Html:
    """Return each hole once with the rules that it stops, then the rules that raised."""
    if not subject.open:
        return NOTHING
    holes: dict[Unknown, dict[str, None]] = {}
    for verdict in subject.open:
        for unknown in verdict.unknowns:
            holes.setdefault(unknown, {})[verdict.rule.code] = None
    title = f"Blind spots: {counted(len(subject.open), 'rule')} not determined"
    broken = [_broken(each) for each in subject.with_outcome(Outcome.ERROR)]
    return lines((tag("h4", badge("?", "open"), f" {title}"), holes_table(holes), *broken))


def holes_table(holes: dict[Unknown, dict[str, None]]) -> Html:
    """Return what is not known, why, how to make it known, and the rules that need it."""
    if not holes:
        return NOTHING
    rows = [
        (hole.what, why_words(hole), hole.hint, listed(sorted(codes)))
        for hole, codes in holes.items()
    ]
    heads = ("Not known", "Why", "To know it", "Needed by")
    return tag("div", table(heads, rows, "Blind spots"), class_="scroll")


def _broken(verdict: Verdict) -> Html:
    """Return a rule that raised, with its traceback folded."""
    said = (verdict.note or "no traceback").strip().split("\n")
    summary = f"{verdict.rule.code} {verdict.rule.name} stopped with an error: {said[-1]}"
    traceback = tag("pre", tag("code", lines(said)))
    return fold(summary, tag("p", "This is a bug in ext4audit."), traceback)
