"""What could not be determined: every gap with -v, otherwise what to do about the gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import listed
from ext4audit.renderers.shared import counted, why_text
from ext4audit.renderers.shared.rows import THE_HOST
from ext4audit.renderers.shared.subjects import traceback_lines, whose_error
from ext4audit.renderers.text.blocks import (
    STEP,
    UNKNOWN_MARKER,
    Blank,
    Blocks,
    Prose,
    Span,
    Verbatim,
)
from ext4audit.report import Outcome, Report, Verdict

_NAMES_SHOWN = 3
_LINES_SHOWN = 3


@dataclass(slots=True)
class _Measure:
    """What one measure would determine: checks and subjects, or a gap of the host."""

    of_host: bool = False
    checks: set[int] = field(default_factory=set)
    subjects: dict[str, None] = field(default_factory=dict)

    @property
    def usefulness(self) -> tuple[bool, int]:
        """A sort key; a gap of the host ranks highest, as it can hide whole filesystems."""
        return (self.of_host, len(self.checks))

    def text(self) -> str:
        """Return the amount that is not determined: "14 checks, 6 filesystems"."""
        filesystems = [each for each in self.subjects if each]
        parts = ["part of the host was not audited"] if self.of_host else []
        parts += [counted(len(self.checks), "check")] if self.checks else []
        parts += [counted(len(filesystems), "filesystem")] if filesystems else []
        return ", ".join(parts)


def short_gap_blocks(report: Report) -> Blocks:
    """Yield a line for each measure, most useful first, then the rules that raised exceptions."""
    measures = _measures(report)
    errors = [_error_text(*each) for each in _errors(report)]
    if len(measures) + len(errors) == 1:
        single = [f"{measure.text()}; {todo}" for todo, measure in measures] + errors
        yield Prose((Span("Not determined: ", "magenta"), Span(f"{single[0]}.")))
        return
    lines = [*(f"{todo}: {measure.text()}" for todo, measure in measures), *errors]
    if lines:
        yield Prose((Span("Not determined:", "magenta"),))
        yield from (Prose((Span(line),), STEP, UNKNOWN_MARKER) for line in lines[:_LINES_SHOWN])
    if len(lines) > _LINES_SHOWN:
        yield Prose((Span(f"{len(lines) - _LINES_SHOWN} more: -v"),), 2 * STEP)


def _measures(report: Report) -> list[tuple[str, _Measure]]:
    """Return the measures and what each would determine, most useful first."""
    measures: dict[str, _Measure] = {}
    for unknown in report.host.gaps:
        measures.setdefault(_todo(unknown), _Measure()).of_host = True
    for number, verdict in enumerate(report.verdicts):
        for unknown in verdict.unknowns:
            measure = measures.setdefault(_todo(unknown), _Measure())
            measure.checks.add(number)
            measure.subjects[verdict.filesystem_id or ""] = None
    return sorted(measures.items(), key=lambda item: item[1].usefulness, reverse=True)


def _todo(unknown: Unknown) -> str:
    """Return what to do about a gap, or what is unknown and why if nothing can be done."""
    return unknown.hint or f"{unknown.what} ({why_text(unknown)})"


def _error_text(first: Verdict, where: str) -> str:
    why = traceback_lines(first)[-1]
    return f"{first.rule.title} stopped with an error on {where}: {why} ({whose_error(first.rule)})"


@dataclass(slots=True)
class _Gap:
    """An unknown with its reasons and the rules and subjects that it affects."""

    unknown: Unknown
    reasons: dict[str, None] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    subjects: dict[str, None] = field(default_factory=dict)


def gap_blocks(report: Report) -> Blocks:
    """Yield every gap once, with the rules it affects, then the rules that raised exceptions."""
    gaps, errors = _gaps(report), _errors(report)
    if not gaps and not errors:
        return
    yield Prose((Span("Not determined", "bold"),))
    yield Blank()
    for gap in gaps:
        yield from _gap(gap)
    for each in errors:
        yield from _error(*each)


def _gaps(report: Report) -> tuple[_Gap, ...]:
    """Group the unknowns by `what` and `hint`, with the gaps of the host first."""
    gaps: dict[tuple[str, str], _Gap] = {}
    for unknown in report.host.gaps:
        _add(gaps, unknown)
    for verdict, fs in report.judged:
        for unknown in verdict.unknowns:
            gap = _add(gaps, unknown)
            gap.rules.add(verdict.rule.code)
            gap.subjects[_subject(fs)] = None
    return tuple(gaps.values())


def _add(gaps: dict[tuple[str, str], _Gap], unknown: Unknown) -> _Gap:
    gap = gaps.setdefault((unknown.what, unknown.hint), _Gap(unknown))
    gap.reasons[why_text(unknown)] = None
    return gap


def _subject(fs: Filesystem | None) -> str:
    return fs.device if fs else THE_HOST


def _gap(gap: _Gap) -> Blocks:
    reasons = f" ({_some(gap.reasons)})"
    yield Prose((Span(gap.unknown.what, "bold"), Span(reasons)), STEP, UNKNOWN_MARKER)
    if gap.rules:
        affected = f"needed by {listed(sorted(gap.rules))} on {_some(gap.subjects)}"
    else:
        affected = "part of the host could not be read, and was not audited"
    yield Prose((Span(affected),), 2 * STEP)
    if gap.unknown.hint:
        yield Prose((Span(f"hint: {gap.unknown.hint}"),), 2 * STEP)


def _some(names: Iterable[str]) -> str:
    return listed(list(names), _NAMES_SHOWN)


def _errors(report: Report) -> list[tuple[Verdict, str]]:
    """Return rules that raised and their subjects; a bug on forty filesystems is one entry."""
    groups: dict[tuple[str, str], tuple[Verdict, list[str]]] = {}
    for verdict, fs in report.judged:
        if verdict.outcome is Outcome.ERROR:
            key = (verdict.rule.code, traceback_lines(verdict)[-1])
            groups.setdefault(key, (verdict, []))[1].append(_subject(fs))
    return [(first, _some(names)) for first, names in groups.values()]


def _error(first: Verdict, where: str) -> Blocks:
    """Yield a rule that raised an exception, with the error and the first traceback."""
    lines = traceback_lines(first)
    stopped = f" stopped with an error on {where}: {lines[-1]}"
    yield Prose((Span(first.rule.title, "bold"), Span(stopped)), STEP, UNKNOWN_MARKER)
    yield Prose((Span(f"this is {whose_error(first.rule)}"),), 2 * STEP)
    # The bar precedes text from the host: GitHub executes a line that begins with "::error".
    yield from (Verbatim(f"| {line}", 3 * STEP, "dim") for line in lines)
