"""The data tables of the rules: their dates and counts, and newer files for them (`--knowledge`).

Each table is a TOML file in facts/tables/, read by a module of facts/. A newer file has the same
format and any number of entries of one table, which replace the built-in entries of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ext4audit.facts import ABOUT, NOT_CONFIRMED, entries_of, parse_toml, read_document, read_table
from ext4audit.facts.knowledge.checks import CHECKS
from ext4audit.facts.knowledge.values import InvalidEntry, Near, Place

SCHEMA_VERSION = "1.1"
FORMAT = 1
"""The format of the data files that this version reads."""


class Table(NamedTuple):
    """One table: its data file, and the nouns for its entries and for the parts of an entry.

    `parts` is the key of the list of parts in an entry, or "" if the parts are its tables.
    """

    file: str
    entry: str
    part: str = ""
    parts: str | None = None


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "kernel_bugs": Table("kernel_bugs.toml", "rule", "range", "range"),
        "features": Table("features.toml", "feature", "line", ""),
        "option_grammar": Table("option_grammar.toml", "option"),
        "option_spellings": Table("option_spellings.toml", "option"),
        "profiles": Table("profiles.toml", "profile"),
        "disk_classes": Table("disk_classes.toml", "class"),
        "os_kernels": Table("os_kernels.toml", "release", "kernel", "kernel"),
        "planned_disks": Table("planned_disks.toml", "kind"),
    }
)


class NewerFile(NamedTuple):
    """A valid data file that the user gave: its path, table, date and entries."""

    path: str
    table: str
    dated: str
    entries: Mapping[str, Mapping[str, Any]]


def built_in_date(table: str) -> str:
    """Return the date of a built-in table in ISO 8601."""
    return str(read_document(TABLES[table].file)[ABOUT]["date"])  # TOML parses it as a date


def by_file(newer: Iterable[NewerFile]) -> Mapping[str, Mapping[str, Any]]:
    """Merge the entries of newer files by the name of the built-in file; later files win."""
    found: dict[str, dict[str, Any]] = {}
    for each in newer:
        found.setdefault(TABLES[each.table].file, {}).update(each.entries)
    return found


def older(newer: Iterable[NewerFile]) -> tuple[str, ...]:
    """Return a warning for each file that is older than the built-in table."""
    return tuple(
        f"the data file {each.path} is older ({each.dated}) than the built-in {each.table} "
        f"({built_in_date(each.table)}): its entries are in force"
        for each in newer
        if each.dated < built_in_date(each.table)
    )


def document(newer: Iterable[NewerFile], *, tool_version: str) -> dict[str, Any]:
    """Return all tables in force, in the JSON structure that docs/knowledge.md describes."""
    files = tuple(newer)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "tables": {name: _object(name, files) for name in TABLES},
    }


def _object(name: str, files: tuple[NewerFile, ...]) -> dict[str, Any]:
    newer = [each for each in files if each.table == name]
    origins = {entry: each.path for each in newer for entry in each.entries}
    entries = read_table(TABLES[name].file)
    return {
        "date": max([built_in_date(name), *(each.dated for each in newer)]),
        "built_in_date": built_in_date(name),
        "files": [{"path": each.path, "date": each.dated} for each in newer],
        "count": len(entries),
        "not_confirmed": not_confirmed(entries),
        "entries": {
            key: {**entry, "data_file": origins.get(key)} for key, entry in entries.items()
        },
    }


def not_confirmed(entry: object) -> int:
    """Return how many lines of an entry or a table are marked as not confirmed."""
    if isinstance(entry, list):
        return sum(map(not_confirmed, entry))
    if not isinstance(entry, Mapping):
        return 0
    own = str(entry.get("confirmed", "")).startswith(NOT_CONFIRMED)
    return own + sum(map(not_confirmed, entry.values()))


def count(name: str) -> str:
    """Return the size of a table in force, such as "5 rules, 37 ranges, 2 not confirmed"."""
    table = TABLES[name]
    entries = read_table(table.file)
    words = [_counted(len(entries), table.entry)]
    if table.parts is not None:
        lists = (entry[table.parts] if table.parts else entry for entry in entries.values())
        words.append(_counted(sum(map(len, lists)), table.part))
    if open_lines := not_confirmed(entries):
        words.append(f"{open_lines} not confirmed")
    return ", ".join(words)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


ABOUT_KEYS = ("table", "format", "date", "sources")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
KEY = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*=")


class KnowledgeError(ValueError):
    """A data file is not valid; the message begins with the line number if it is known."""


def read_newer(text: str, path: str, near: Near) -> NewerFile:
    """Parse and check a newer data file; raises KnowledgeError, or ValueError for invalid TOML."""
    document = parse_toml(text)
    try:
        return _checked(document, path, near)
    except InvalidEntry as wrong:
        raise KnowledgeError(_located(wrong, text)) from None


def _checked(document: Mapping[str, Any], path: str, near: Near) -> NewerFile:
    table, dated = _about(document, near)
    own = document[ABOUT].get("sources", {})
    entries = {key: value for key, value in document.items() if key != ABOUT}
    if not entries:
        raise InvalidEntry((), f"it has no entries of {table}")
    for key, entry in entries.items():
        if not isinstance(entry, dict):
            raise InvalidEntry((key,), "it is not a table")
        CHECKS[table](key, entry, own, near)
    return NewerFile(path, table, dated, entries_of(document))


def _about(document: Mapping[str, Any], near: Near) -> tuple[str, str]:
    """Return the table that a file belongs to and the file's date; raises InvalidEntry."""
    about = document.get(ABOUT)
    if not isinstance(about, dict):
        raise InvalidEntry((), 'the table [about] is missing, with "table", "format" and "date"')
    for key in about:
        if key not in ABOUT_KEYS:
            raise InvalidEntry((ABOUT, key), f"unknown key {key!r}{near(key, ABOUT_KEYS)}")
    table, dated = about.get("table"), about.get("date")
    if table not in TABLES:
        known = near(str(table), list(TABLES)) or f" (choose from {', '.join(TABLES)})"
        raise InvalidEntry((ABOUT, "table"), f"there is no table {table!r}{known}")
    if about.get("format") != FORMAT:
        why = f"this version reads format {FORMAT}, not {about.get('format')!r}"
        raise InvalidEntry((ABOUT, "format"), why)
    if isinstance(dated, str) or DAY.fullmatch(str(dated)) is None:
        raise InvalidEntry((ABOUT, "date"), "it is not a date such as 2027-01-31, without quotes")
    sources = about.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(s, dict) for s in sources.values()):
        why = "it is not a table of tables with source and confirmed"
        raise InvalidEntry((ABOUT, "sources"), why)
    return str(table), str(dated)


def _located(wrong: InvalidEntry, text: str) -> str:
    """Return the message with the line number and the dotted name of the place."""
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.place)
    where = f"{name.removeprefix('.')}: " if name else ""
    line = _line(wrong.place, text)
    return f"{f'line {line}: ' if line else ''}{where}{wrong}"


def _line(place: Place, text: str) -> int | None:
    """Return the line of a place or of the table that contains it, None for the whole file.

    Lines of multi-line strings may be mistaken for keys; the line is only used in messages.
    """
    lines = _lines(text)
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def _lines(text: str) -> dict[Place, int]:
    """Return the line numbers of all tables, elements of lists of tables, and keys."""
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
