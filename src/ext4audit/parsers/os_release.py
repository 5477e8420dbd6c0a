"""os-release(5): which operating system this is."""

from __future__ import annotations

import re

from ext4audit.facts.host import OperatingSystem

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_ESCAPED_IN_QUOTES = re.compile(r'\\([$"\\`])')
_ESCAPED = re.compile(r"\\(.)")


def parse_os_release(text: str) -> OperatingSystem:
    """Parse an os-release file; lines that are no assignment are skipped, the last one counts.

    ValueError where no line is an assignment at all.
    """
    matches = (_ASSIGNMENT.fullmatch(line.strip()) for line in text.split("\n"))
    values = {match[1]: _unquote(match[2]) for match in matches if match is not None}
    if not values:
        raise ValueError("no line is an assignment")
    return OperatingSystem(
        id=values.get("ID", ""),
        version_id=values.get("VERSION_ID", ""),
        pretty_name=values.get("PRETTY_NAME", ""),
    )


def _unquote(value: str) -> str:
    """Undo the shell quoting that os-release(5) allows: no quotes, one pair, or backslashes."""
    quoted = len(value) > 1 and value[0] == value[-1]
    if quoted and value[0] == "'":
        return value[1:-1]
    if quoted and value[0] == '"':
        return _ESCAPED_IN_QUOTES.sub(r"\1", value[1:-1])
    return _ESCAPED.sub(r"\1", value)
