"""The JSON output of `ext4audit probe`, which `scan --probe` reads as untrusted input.

Only the fields that a scan needs are read; values that a probe does not print raise ValueError.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ext4audit.facts.measurement import (
    Figure,
    MeasuredFilesystem,
    Measurement,
    MemberFigures,
    ProbeRun,
    ProbeVerdict,
)

KIND = "ext4audit probe"
MAJOR = "1."
RULES = {"fsync": "DUR001", "rename": "PRF002", "extents": "PRF001", "members": "LAY001"}
MODES = ("probe", "observe")
LONGEST_TEXT = 4096
MOST_ENTRIES = 4096
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def parse_probe_run(text: str) -> ProbeRun:
    """Return the probe run in a JSON text; raise ValueError for other text."""
    try:
        parsed = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    document = _object(parsed, "the document")
    if document.get("kind") != KIND:
        raise ValueError(f"its kind is not {KIND!r}")
    if not _text(document, "schema_version").startswith(MAJOR):
        raise ValueError(f"its schema_version is {document['schema_version']!r}")
    subject = _object(document.get("filesystem"), "filesystem")
    return ProbeRun(
        mode=_one_of(_text(document, "mode"), MODES),
        taken_at=_time(_text(document, "taken_at")),
        host=_text(document, "host"),
        boot_id=_text(document, "boot_id", ""),
        directory=_text(document, "directory"),
        filesystem=_filesystem(document, subject),
        seconds=_number(document.get("seconds"), "seconds") or 0.0,
        written_bytes=int(_number(document.get("written_bytes"), "written_bytes") or 0),
        results=tuple(
            _result(each) for each in _list(document.get("results"), "results", len(RULES))
        ),
    )


def _filesystem(document: Mapping[str, Any], subject: Mapping[str, Any]) -> MeasuredFilesystem:
    options = _object(subject.get("options"), "options")
    return MeasuredFilesystem(
        uuid=_text(subject, "uuid", ""),
        device=_text(subject, "device"),
        kernel_release=_text(document, "kernel_release"),
        options=tuple((name, _text(options, name)) for name in options),
    )


def _result(value: object) -> Measurement:
    result = _object(value, "a result")
    probe = _one_of(_text(result, "probe"), tuple(RULES))
    if _text(result, "rule") != RULES[probe]:
        raise ValueError(f"the probe {probe} measures {RULES[probe]}")
    measured = _object(result.get("measured"), "measured")
    return Measurement(
        probe=probe,
        rule=RULES[probe],
        verdict=ProbeVerdict(_text(result, "verdict")),
        why=_text(result, "why"),
        healthy=_text(result, "healthy"),
        figures=tuple(Figure(name, _number(each, name)) for name, each in measured.items()),
        members=tuple(map(_member, _list(result.get("members", []), "members", MOST_ENTRIES))),
    )


def _member(value: object) -> MemberFigures:
    """Return a member with its name only; a scan does not use its figures."""
    return MemberFigures(_text(_object(value, "a member"), "name"), 0, 0, None, None, None)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or len(value) > MOST_ENTRIES:
        raise ValueError(f"{name} is not an object of at most {MOST_ENTRIES} entries")
    return value


def _list(value: object, name: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"the {name} are not a list of at most {most}")
    return value


def _text(holder: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """Return a string, or the default if there is one and the value is null or missing."""
    value = holder.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ValueError(f"{key} is not a text of at most {LONGEST_TEXT} characters")
    value.encode()  # a lone surrogate is a ValueError
    return value


def _one_of(value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(known)}")
    return value


def _time(value: str) -> str:
    if not _TIME.fullmatch(value):
        raise ValueError("taken_at is not a time in UTC, such as 2026-01-02T03:04:05Z")
    return value


def _number(value: object, name: str) -> float | None:
    """Return a finite number, None for null."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is not a finite number")
    return value
