"""The text format: what could not be determined, why, and how to make it known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ext4audit.evidence import Unknown
from ext4audit.renderers.text_blocks import (
    STEP,
    UNKNOWN_MARKER,
    Blank,
    Blocks,
    Look,
    Prose,
    Span,
    Verbatim,
)
from ext4audit.renderers.words import listed, why_words
from ext4audit.report import Outcome, Report, Verdict

_SHOWN = 3
_HOST = "the host"


@dataclass(slots=True)
class _Hole:
    """One thing that is not known, and all that it keeps from being judged."""

    unknown: Unknown
    reasons: dict[str, None] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    places: dict[str, None] = field(default_factory=dict)


def unknown_blocks(report: Report, look: Look) -> Blocks:
    """Show every hole once, with the rules that it affects, then the rules that broke."""
    holes, errors = _holes(report), _errors(report)
    if not holes and not errors:
        return
    yield Prose((Span("Not determined", "bold"),))
    yield Blank()
    for hole in holes:
        yield from _hole(hole)
    for same in errors:
        yield from _error(same, _devices(report), look)


def _holes(report: Report) -> tuple[_Hole, ...]:
    """Group what is unknown by what it is and how to know it; the gaps of the host first."""
    holes: dict[tuple[str, str], _Hole] = {}
    for gap in report.host.gaps:
        _add(holes, gap)
    devices = _devices(report)
    for verdict in report.verdicts:
        for unknown in verdict.unknowns:
            hole = _add(holes, unknown)
            hole.rules.add(verdict.rule.code)
            hole.places[_place(verdict, devices)] = None
    return tuple(holes.values())


def _add(holes: dict[tuple[str, str], _Hole], unknown: Unknown) -> _Hole:
    hole = holes.setdefault((unknown.what, unknown.hint), _Hole(unknown))
    hole.reasons[why_words(unknown)] = None
    return hole


def _devices(report: Report) -> dict[str, str]:
    return {fs.id: fs.device for fs in report.host.filesystems}


def _place(verdict: Verdict, devices: dict[str, str]) -> str:
    return devices.get(verdict.filesystem_id or "", _HOST)


def _hole(hole: _Hole) -> Blocks:
    reasons = f" ({_some(hole.reasons)})"
    yield Prose((Span(hole.unknown.what, "bold"), Span(reasons)), STEP, UNKNOWN_MARKER)
    if hole.rules:
        affected = f"needed by {listed(sorted(hole.rules))} on {_some(hole.places)}"
    else:
        affected = "a gap in the view of the host: what lies behind it was not audited"
    yield Prose((Span(affected),), 2 * STEP)
    if hole.unknown.hint:
        yield Prose((Span(f"to know it: {hole.unknown.hint}"),), 2 * STEP)


def _some(names: Iterable[str]) -> str:
    return listed(list(names), _SHOWN)


def _errors(report: Report) -> tuple[tuple[Verdict, ...], ...]:
    """Group the rules that raised: the same bug on forty filesystems is one entry."""
    groups: dict[tuple[str, str], tuple[Verdict, ...]] = {}
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.ERROR:
            key = (verdict.rule.code, _traceback(verdict)[-1])
            groups[key] = (*groups.get(key, ()), verdict)
    return tuple(groups.values())


def _traceback(verdict: Verdict) -> list[str]:
    return (verdict.note or "no traceback").strip().split("\n")


def _error(verdicts: Sequence[Verdict], devices: dict[str, str], look: Look) -> Blocks:
    """Show a rule that raised: its last line, and with -v the first whole traceback."""
    first = verdicts[0]
    lines = _traceback(first)
    places = _some([_place(verdict, devices) for verdict in verdicts])
    stopped = f" stopped with an error on {places}: {lines[-1]}"
    name = Span(f"{first.rule.code} {first.rule.name}", "bold")
    yield Prose((name, Span(stopped)), STEP, UNKNOWN_MARKER)
    yield Prose((Span("this is a bug in ext4audit"),), 2 * STEP)
    if look.verbose:
        # The bar keeps a line of the host's words from standing first: GitHub obeys "::error".
        yield from (Verbatim(f"| {line}", 3 * STEP, "dim") for line in lines)
