"""`ext4audit probe --format json`: a run with its results, to be handed to `scan --probe`."""

from __future__ import annotations

from typing import Any

from ext4audit.facts.measurement import Measurement, MemberFigures, Number, ProbeRun
from ext4audit.renderers import json_text

KIND = "ext4audit probe"
SCHEMA_VERSION = "1.0"
_DIGITS = 6


def render(run: ProbeRun, *, tool_version: str) -> str:
    """Return one JSON object, indented, with a newline at the end."""
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
        "results": [_result(each) for each in run.results],
        "skipped": [
            {"probe": each.probe, "rule": each.rule, "why": each.why} for each in run.skipped
        ],
    }


def _result(result: Measurement) -> dict[str, Any]:
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
