"""The data that rules judge by, as tables: their dates and counts, and newer files of them.

Each table is a TOML file in facts/, beside the module that reads it. A newer file has the same
format, and any number of entries of one table: they take the place of the built-in entries of the
same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ext4audit.facts import ABOUT, NOT_CONFIRMED, read_document, read_table

SCHEMA_VERSION = "1.1"
FORMAT = 1
"""The format of the data files that this version reads."""


class Table(NamedTuple):
    """One table: its data file, what an entry is called, and the lists or tables in an entry.

    `parts` are what is counted in an entry: the key of a list, or "" for its tables.
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
    """A data file that was named and is valid: its path, table, date, and its entries."""

    path: str
    table: str
    dated: str
    entries: Mapping[str, Mapping[str, Any]]


def built_in_date(table: str) -> str:
    """Return the date of a built-in table, in ISO 8601."""
    return str(read_document(TABLES[table].file)[ABOUT]["date"])  # a date of TOML


def by_file(newer: Iterable[NewerFile]) -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of newer files by the name of the built-in file; later files win."""
    found: dict[str, dict[str, Any]] = {}
    for each in newer:
        found.setdefault(TABLES[each.table].file, {}).update(each.entries)
    return found


def older(newer: Iterable[NewerFile]) -> tuple[str, ...]:
    """Return a sentence for each file that is older than the built-in table."""
    return tuple(
        f"the data file {each.path} is older ({each.dated}) than the built-in {each.table} "
        f"({built_in_date(each.table)}): its entries are in force"
        for each in newer
        if each.dated < built_in_date(each.table)
    )


def document(newer: Iterable[NewerFile], *, tool_version: str) -> dict[str, Any]:
    """Return all tables in force, with the shape that docs/knowledge.md describes."""
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
    """Return how many lines of an entry, or of a table, say that they are not confirmed."""
    if isinstance(entry, list):
        return sum(map(not_confirmed, entry))
    if not isinstance(entry, Mapping):
        return 0
    own = str(entry.get("confirmed", "")).startswith(NOT_CONFIRMED)
    return own + sum(map(not_confirmed, entry.values()))


def count(name: str) -> str:
    """Return how much a table in force has, in words: "5 rules, 37 ranges, 2 not confirmed"."""
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
