"""The output of `ext4audit probe`: text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ext4audit.facts import MIB
from ext4audit.facts.measurement import (
    Figure,
    Measurement,
    MemberFigures,
    Number,
    ProbeRun,
    ProbeVerdict,
)
from ext4audit.renderers import json_text
from ext4audit.renderers.text import render_blocks
from ext4audit.renderers.text.blocks import STEP, Blank, Block, Prose, Span, Verbatim

_STYLES = {
    ProbeVerdict.HEALTHY: "bold green",
    ProbeVerdict.AFFECTED: "bold red",
    ProbeVerdict.INCONCLUSIVE: "bold magenta",
}
_UNITS = {
    "_mib_per_second": " MiB/s",
    "_per_second": "/s",
    "_per_mib": "/MiB",
    "_seconds": " s",
    "_mib": " MiB",
    "_ms": " ms",
}
"""The unit to print for each ending of a figure's name, longest ending first."""
_SMALL, _LARGE = 1, 100
_LEFT_OUT = ("_p90_ms", "_max_ms")
"""Endings of the names of figures that only the JSON output has."""
KIND = "ext4audit probe"
SCHEMA_VERSION = "1.0"
_DIGITS = 6


def render_text(run: ProbeRun, *, color: bool, width: int | None, ascii_only: bool) -> str:
    """Return the run as text with a final newline, wrapped unless `width` is None."""
    return render_blocks(_blocks(run), color=color, width=width, ascii_only=ascii_only)


def _blocks(run: ProbeRun) -> Iterator[Block]:
    yield Prose((Span(run.directory, "bold"), Span(f" on {run.filesystem.device}: {_did(run)}")))
    for result in run.results:
        yield Blank()
        yield from _result(result)
    for each in run.skipped:
        yield Blank()
        yield Prose((Span(f"{each.rule}  {each.probe}  not measured: {each.why}", "dim"),))


def _did(run: ProbeRun) -> str:
    if run.mode == "observe":
        return f"observed for {run.seconds:.0f} s, nothing was written"
    written = f"{run.written_bytes / MIB:.0f} MiB written in {run.seconds:.0f} s"
    return f"{written}, all of it removed"


def _result(result: Measurement) -> Iterator[Block]:
    verdict = Span(result.verdict.value, _STYLES[result.verdict])
    yield Prose((Span(f"{result.rule}  {result.probe}  "), verdict, Span(f": {result.why}")))
    if result.figures:
        shown = (each for each in result.figures if not each.name.endswith(_LEFT_OUT))
        measured = ", ".join(map(_figure, shown))
        yield Prose((Span(measured),), STEP, Span("measured  ", "dim"))
    if result.members:
        yield from _members(result.members)
    yield Prose((Span(result.healthy),), STEP, Span("healthy   ", "dim"))


def _figure(figure: Figure) -> str:
    for ending, unit in _UNITS.items():
        name = figure.name.removesuffix(ending)
        if name != figure.name:
            return f"{name.replace('_', ' ')} {_number(figure.value)}{unit}"
    return f"{figure.name.replace('_', ' ')} {_number(figure.value)}"


def _number(value: Number) -> str:
    """Return a number with 0, 2 or 3 decimals, depending on its size, or "?" for None."""
    if value is None:
        return "?"
    if isinstance(value, int) or abs(value) >= _LARGE:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= _SMALL else f"{value:.3f}"


def _members(members: tuple[MemberFigures, ...]) -> Iterator[Block]:
    columns = max(len("member"), *(len(member.name) for member in members))
    head = ("writes", "share", "predicted", "write wait", "flushes", "flush wait")
    yield Verbatim(_row("member", head, columns), STEP, "dim")
    for member in members:
        cells = (
            str(member.writes),
            _percent(member.share),
            _percent(member.predicted_share),
            f"{_number(member.write_wait_ms)} ms",
            "?" if member.flushes is None else str(member.flushes),
            f"{_number(member.flush_wait_ms)} ms",
        )
        yield Verbatim(_row(member.name, cells, columns), STEP)


def _row(name: str, cells: tuple[str, ...], columns: int) -> str:
    return "  ".join((f"{name:<{columns}}", *(f"{cell:>10}" for cell in cells)))


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def render_json(run: ProbeRun, *, tool_version: str) -> str:
    """Return one indented JSON object with a final newline."""
    return json_text(_object(run, tool_version))


def _object(run: ProbeRun, tool_version: str) -> dict[str, Any]:
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "mode": run.mode,
        "taken_at": run.taken_at,
        "host": run.host,
        "boot_id": run.boot_id or None,
        "kernel_release": run.filesystem.kernel_release or None,
        "directory": run.directory,
        "filesystem": {
            "uuid": run.filesystem.uuid or None,
            "device": run.filesystem.device,
            "options": dict(run.filesystem.options),
        },
        "seconds": _rounded(run.seconds),
        "written_bytes": run.written_bytes,
        "results": [_result_object(each) for each in run.results],
        "skipped": [
            {"probe": each.probe, "rule": each.rule, "why": each.why} for each in run.skipped
        ],
    }


def _result_object(result: Measurement) -> dict[str, Any]:
    return {
        "probe": result.probe,
        "rule": result.rule,
        "verdict": result.verdict.value,
        "why": result.why,
        "healthy": result.healthy,
        "measured": {figure.name: _rounded(figure.value) for figure in result.figures},
        "members": [_member(each) for each in result.members],
    }


def _member(member: MemberFigures) -> dict[str, Any]:
    return {
        "name": member.name,
        "writes": member.writes,
        "written_bytes": member.written_bytes,
        "flushes": member.flushes,
        "write_wait_ms": _rounded(member.write_wait_ms),
        "flush_wait_ms": _rounded(member.flush_wait_ms),
        "share": _rounded(member.share),
        "predicted_share": _rounded(member.predicted_share),
    }


def _rounded(value: Number) -> Number:
    return round(value, _DIGITS) if isinstance(value, float) else value
