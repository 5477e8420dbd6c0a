"""Facts: frozen values in the kernel's terms, and the reader of the data tables (tables/*.toml)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from pkgutil import get_data
from types import ModuleType
from typing import Any, TypeVar

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
MOST_DIGITS = 20
"""The decimal digits of the largest 64-bit number."""
MOST_DOTS = 64
"""The most dots in a line of TOML: tomllib takes 50 s for a key of 50,000 parts."""


def decoded(raw: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark; raises ValueError for other bytes."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raises ValueError if the text is invalid or would take too long to parse."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(f"line {number} has more than {MOST_DOTS} dots")
    try:
        table: dict[str, Any] = toml_reader().loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
    return table


def toml_reader() -> ModuleType:
    """Import and return tomllib, or its backport on Python 3.10; few scans need it."""
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def whole_number(text: str) -> int | None:
    """Parse a number of at most 20 ASCII digits; return None for any other text.

    int() raises ValueError for thousands of digits, and accepts the digits of every script.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return int(text) if is_number else None


ABOUT = "about"
"""The table of a data file that is not an entry: it has the file's table, format and date."""
NOT_CONFIRMED = "not confirmed"
"""How `confirmed` begins in an entry that nobody has checked: "not confirmed: ..."."""
_NEWER: dict[str, dict[str, Any]] = {}
"""The entries of newer data files (`--knowledge`), by the name of the built-in file."""


@cache
def read_document(name: str) -> dict[str, Any]:
    """Parse a TOML file of the tables folder, given its name ("profiles.toml").

    Raises FileNotFoundError if the package was installed without it.
    """
    return parse_toml(source_text(name))


def source_text(name: str) -> str:
    """Return the text of a TOML file of the tables folder; raises FileNotFoundError."""
    # get_data also reads from a zip archive, at half the start-up cost of importlib.resources.
    data = get_data("ext4audit.facts", f"tables/{name}")
    if data is None:
        raise FileNotFoundError(name)
    return data.decode("utf-8")


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return the entries of a data file by name; entries of newer files replace built-in ones.

    It returns the same object until `put_in_force` changes the data. Raises FileNotFoundError.
    """
    return {**entries_of(read_document(name)), **_NEWER.get(name, {})}


def entries_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a data file, with names of shared sources replaced by the sources."""
    sources = document[ABOUT].get("sources", {})
    entries = {key: value for key, value in document.items() if key != ABOUT}
    return {key: _in_full(entry, sources) for key, entry in entries.items()} if sources else entries


def _in_full(entry: object, sources: Mapping[str, Mapping[str, str]]) -> object:
    """Return an entry or a part of one, with names of shared sources replaced by the sources."""
    if isinstance(entry, list):
        return [_in_full(each, sources) for each in entry]
    if not isinstance(entry, dict):
        return entry
    parts = {key: _in_full(each, sources) for key, each in entry.items()}
    word = entry.get("source")
    return {**parts, **(sources.get(word, {}) if isinstance(word, str) else {})}


def put_in_force(newer: Mapping[str, Mapping[str, Any]]) -> None:
    """Let entries of newer files replace the built-in ones of the same name, in this process.

    `newer` maps the name of the built-in file to the entries; empty restores the built-in data.
    """
    wanted = {name: dict(entries) for name, entries in newer.items()}
    if wanted != _NEWER:
        _NEWER.clear()
        _NEWER.update(wanted)
        read_table.cache_clear()


T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, tuple[T, ...]]:
    """Group values by key, both in the order of the pairs."""
    found: dict[K, list[T]] = {}
    for key, each in pairs:
        found.setdefault(key, []).append(each)
    return {key: tuple(same) for key, same in found.items()}


KEPT = 4
"""How many results each function keeps: a pass over one host uses a few tables in turn."""


def cached_by_identity(build: Callable[[T], R]) -> Callable[[T], R]:
    """Cache the results of a function of a frozen table for the last few tables, by identity.

    `functools.cache` compares by equality, but hashing a table is as slow as building its index.
    The tables are kept with the results, so that no other object can get the same identity.
    """
    kept: tuple[tuple[T, R], ...] = ()

    @wraps(build)
    def answer(table: T) -> R:
        nonlocal kept
        for known, found in kept:
            if known is table:
                return found
        found = build(table)
        kept = ((table, found), *kept[: KEPT - 1])
        return found

    return answer


class TableView(Mapping[str, R]):
    """A mapping built from a data file on each access, because newer data may be in force."""

    def __init__(self, build: Callable[[], Mapping[str, R]]) -> None:
        """Keep the function that builds the mapping; it should be cheap if nothing changed."""
        self._build = build

    def __getitem__(self, key: str) -> R:
        return self._build()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._build())

    def __len__(self) -> int:
        return len(self._build())
