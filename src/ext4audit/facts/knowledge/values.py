"""Checks of the values of an entry: texts, choices, versions and sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import UnionType
from typing import Any

Near = Callable[[str, Sequence[str]], str]
"""Returns " (did you mean …?)" for a similar name, else an empty string."""
Place = tuple[str | int, ...]
"""The path of a value: keys of tables and positions in lists."""
Sources = Mapping[str, Any]
"""The shared sources of a file by the names under which entries refer to them."""
NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
NUMBERS = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,6}){1,2}")
URL = re.compile(r"https://[^\s\"<>]+")
LONGEST_TEXT = 2000


class InvalidEntry(ValueError):  # noqa: N818 - what the file is
    """An entry is not valid; `place` is the path of the value, the message the reason."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(why)
        self.place = place


def check_keys(place: Place, entry: Mapping[str, Any], known: Collection[str], near: Near) -> None:
    """Refuse keys that the entry cannot have."""
    for key in entry:
        if key not in known:
            raise InvalidEntry((*place, key), f"unknown key {key!r}{near(key, list(known))}")


def text_of(place: Place, entry: Mapping[str, Any], key: str, *, needed: bool = True) -> str:
    """Return a text of an entry, empty if it is missing and not needed."""
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise InvalidEntry((*place, key), "it is not a text")
    if needed and not value.strip():
        raise InvalidEntry((*place, key) if key in entry else place, f"{key} is missing")
    if len(value) > LONGEST_TEXT or not value.isprintable():
        raise InvalidEntry(
            (*place, key), f"it is not a printable text of at most {LONGEST_TEXT} letters"
        )
    return value


def check_name(name: str, form: re.Pattern[str], words: str) -> None:
    """Refuse the name of an entry that does not match; `words` describe a valid name."""
    if form.fullmatch(name) is None:
        raise InvalidEntry((name,), f"it is not {words}")


def check_form(
    place: Place, entry: Mapping[str, Any], key: str, form: re.Pattern[str], words: str
) -> None:
    """Refuse a text that does not match; `words` describe a valid text. It may be missing."""
    if key in entry and form.fullmatch(text_of(place, entry, key)) is None:
        raise InvalidEntry((*place, key), f"it is not {words}")


def check_kind(
    place: Place, entry: Mapping[str, Any], key: str, kind: type | UnionType, words: str
) -> None:
    """Refuse a value of another type; a bool does not count as a number."""
    value = entry.get(key)
    is_truth = isinstance(value, bool) and kind is not bool
    if value is not None and (is_truth or not isinstance(value, kind)):
        raise InvalidEntry((*place, key), f"it is not {words}")


def texts_of(place: Place, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of non-empty texts of an entry, empty if it is missing."""
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidEntry((*place, key), "it is not a list of texts")
    return tuple(value)


def check_choice(
    place: Place, entry: Mapping[str, Any], key: str, words: Sequence[str], near: Near
) -> None:
    """Refuse a value that is not one of `words`; it may be missing."""
    value = entry.get(key)
    if value is not None and value not in words:
        known = near(str(value), words) or f" (choose from {', '.join(words)})"
        raise InvalidEntry((*place, key), f"unknown {key} {value!r}{known}")


def check_source(place: Place, entry: Mapping[str, Any], sources: Sources, *, note: bool) -> None:
    """Refuse an entry without an https source, or with `note` one without `confirmed`."""
    named = sources.get(str(entry.get("source")), entry)
    if not isinstance(named, dict) or URL.fullmatch(text_of(place, named, "source")) is None:
        raise InvalidEntry((*place, "source"), "it is not a URL that begins with https://")
    if note:
        text_of(place, named, "confirmed")
