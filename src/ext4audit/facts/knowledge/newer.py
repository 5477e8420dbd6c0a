"""Read a newer data file: valid as a whole, or refused with the line of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ext4audit.facts import ABOUT, entries_of, parse_toml
from ext4audit.facts.knowledge import FORMAT, TABLES, NewerFile
from ext4audit.facts.knowledge.checks import CHECKS
from ext4audit.facts.knowledge.values import Wrong

Near = Callable[[str, Sequence[str]], str]
"""Returns " (did you mean …?)" for a similar name, else an empty text."""
ABOUT_KEYS = ("table", "format", "date", "sources")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
KEY = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*=")
Place = tuple[str | int, ...]
"""Where something stands: keys of tables, and positions in lists."""


class KnowledgeError(ValueError):
    """A data file is not valid; the message begins with the line where it is known."""


def read_newer(text: str, path: str, near: Near) -> NewerFile:
    """Return a newer data file; raises KnowledgeError, and ValueError for what is no TOML."""
    document = parse_toml(text)
    try:
        return _checked(document, path, near)
    except Wrong as wrong:
        raise KnowledgeError(_located(wrong, text)) from None


def _checked(document: Mapping[str, Any], path: str, near: Near) -> NewerFile:
    table, dated = _about(document, near)
    own = document[ABOUT].get("sources", {})
    entries = {key: value for key, value in document.items() if key != ABOUT}
    if not entries:
        raise Wrong((), f"it has no entries of {table}")
    for key, entry in entries.items():
        if not isinstance(entry, dict):
            raise Wrong((key,), "it is not a table")
        CHECKS[table](key, entry, own, near)
    return NewerFile(path, table, dated, entries_of(document))


def _about(document: Mapping[str, Any], near: Near) -> tuple[str, str]:
    """Return the name and the date of the table that a file belongs to; raises Wrong."""
    about = document.get(ABOUT)
    if not isinstance(about, dict):
        raise Wrong((), 'the table [about] is missing, with "table", "format" and "date"')
    for key in about:
        if key not in ABOUT_KEYS:
            raise Wrong((ABOUT, key), f"unknown key {key!r}{near(key, ABOUT_KEYS)}")
    table, dated = about.get("table"), about.get("date")
    if table not in TABLES:
        known = near(str(table), list(TABLES)) or f" (choose from {', '.join(TABLES)})"
        raise Wrong((ABOUT, "table"), f"there is no table {table!r}{known}")
    if about.get("format") != FORMAT:
        why = f"this version reads format {FORMAT}, not {about.get('format')!r}"
        raise Wrong((ABOUT, "format"), why)
    if isinstance(dated, str) or DAY.fullmatch(str(dated)) is None:
        raise Wrong((ABOUT, "date"), "it is not a date such as 2027-01-31, without quotes")
    _check_sources(about.get("sources", {}))
    return str(table), str(dated)


def _check_sources(sources: object) -> None:
    """Refuse sources by a word that are not tables; raises Wrong."""
    if not isinstance(sources, dict) or not all(isinstance(s, dict) for s in sources.values()):
        raise Wrong((ABOUT, "sources"), "it is not a table of tables with source and confirmed")


def _located(wrong: Wrong, text: str) -> str:
    """Return the message with the line, and the place in words."""
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.place)
    where = f"{name.removeprefix('.')}: " if name else ""
    line = _line(wrong.place, text)
    return f"{f'line {line}: ' if line else ''}{where}{wrong}"


def _line(place: Place, text: str) -> int | None:
    """Return the line where a place begins, or what holds it; None for the file as a whole.

    A line in a text of several lines can be taken for another one; a message is all it decides.
    """
    lines = _lines(text)
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def _lines(text: str) -> dict[Place, int]:
    """Return the line of each table, each element of a list of tables, and each key."""
    found: dict[Place, int] = {}
    here: Place = ()
    seen: dict[Place, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        header = HEADER.fullmatch(line)
        if header is not None:
            here = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if line.lstrip().startswith("[["):
                seen[here] = seen.get(here, -1) + 1
                here = (*here, seen[here])
            found.setdefault(here, number)
        elif key := KEY.match(line):
            found.setdefault((*here, key[1].strip("\"'")), number)
    return found
