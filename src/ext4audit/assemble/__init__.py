"""Joining parsed answers into a host; this module has helpers that fetch and parse in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeGuard, TypeVar

from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, for_wording
from ext4audit.parsers import parse_count, parse_integer, parse_names
from ext4audit.sources import EffectiveUser, ListDir, ReadFile, Source, TextAsk

T = TypeVar("T")


def ask(source: Source, question: TextAsk, parse: Callable[[str], T], what: str) -> Evidence[T]:
    """Fetch one text and parse it; text that cannot be parsed becomes `Unknown(what)`."""
    return derive(what, parse, source.fetch(question))


def read(source: Source, path: str, parse: Callable[[str], T]) -> Evidence[T]:
    """Read and parse one file; the evidence is named after its path."""
    return ask(source, ReadFile(path), parse, path)


def read_integer(source: Source, path: str) -> Evidence[int]:
    """Read one file that holds a decimal number, which may be negative."""
    return read(source, path, parse_integer)


def read_count(source: Source, path: str) -> Evidence[int]:
    """Read one file that holds a size, a limit or a number of things."""
    return read(source, path, parse_count)


def list_directory(source: Source, path: str) -> Evidence[tuple[str, ...]]:
    """Return the names in one directory."""
    return ask(source, ListDir(path), parse_names, path)


def read_line(source: Source, path: str) -> str | None:
    """Read a one-line file, None if it is unknown or empty; use for optional details only."""
    return for_wording(read(source, path, str.strip), "") or None


def is_absent(evidence: Evidence[T]) -> TypeGuard[Unknown]:
    """Return whether the evidence is unknown because the host does not have the fact."""
    return isinstance(evidence, Unknown) and evidence.why is Why.ABSENT


def is_gap(evidence: Evidence[T]) -> TypeGuard[Unknown]:
    """Return whether the evidence is unknown for any reason other than absence."""
    return isinstance(evidence, Unknown) and evidence.why is not Why.ABSENT


def none_if_absent(evidence: Evidence[T]) -> Evidence[T] | None:
    """Return None if this kernel or device does not have the file, else the evidence."""
    return None if is_absent(evidence) else evidence


def first_of(found: Iterable[Evidence[T]]) -> Evidence[T] | None:
    """Return the first known evidence, else the first unknown one; None if `found` is empty."""
    unknown: Unknown | None = None
    for each in found:
        if isinstance(each, Known):
            return each
        unknown = unknown or each
    return unknown


def first_known(*attempts: Callable[[], Evidence[T]]) -> Evidence[T]:
    """Return the first known result of the attempts, or the first unknown one if all fail."""
    found = first_of(attempt() for attempt in attempts)
    if found is None:
        raise ValueError("no alternatives given")
    return found


def all_known(found: Iterable[Evidence[T]], origin: str) -> Evidence[tuple[T, ...]]:
    """Return all values, or the first unknown one; the evidence after it is not evaluated."""
    values = []
    for each in found:
        if isinstance(each, Unknown):
            return each
        values.append(each.value)
    return Known(tuple(values), origin)


def is_root(source: Source) -> bool:
    """Return whether the host is read as root; False if the effective user is unknown."""
    user = source.fetch(EffectiveUser())
    return isinstance(user, Known) and user.value.strip() == "0"
