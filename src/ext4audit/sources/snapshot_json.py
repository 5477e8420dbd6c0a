"""JSON from anybody, looked at key by key: what is odd is a SnapshotError that says where."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ext4audit.sources.snapshot_format import FORMAT, VERSION, SnapshotError
from ext4audit.sources.text import decode

Object: TypeAlias = Mapping[str, Any]

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def parse_manifest(manifest: bytes) -> object:
    """Parse JSON and check the version, before anything else of the shape is relied on.

    A string may hold bytes that are not UTF-8: the shell has no means to spell them otherwise.
    """
    try:
        top = json.loads(decode(manifest), object_pairs_hook=_unique)
    except SnapshotError:
        raise
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {error}") from None
    if not isinstance(top, dict) or top.get("format") != FORMAT:
        raise SnapshotError(f"not a manifest of the format {FORMAT}")
    version = top.get("version")
    if type(version) is not int or version != VERSION:
        raise SnapshotError(f"version {version!r:.40} of the format; this program reads {VERSION}")
    return top


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: one of the two would be lost in silence."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise SnapshotError("a key stands twice in one object")
    return made


def checked(
    value: object, keys: set[str], what: str, optional: frozenset[str] = frozenset()
) -> Object:
    """Return an object that has these keys, perhaps the optional ones, and no other.

    A misspelt key is not ignored.
    """
    if isinstance(value, dict) and keys <= value.keys() <= keys | optional:
        return value
    perhaps = f" (perhaps {', '.join(sorted(optional))})" if optional else ""
    raise SnapshotError(f"{what}: not an object of {', '.join(sorted(keys))}{perhaps}")


def string(entry: Object, key: str) -> str:
    """Return a string; raises SnapshotError."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise SnapshotError(f"{key}: not a string")
    return value


def strings(entry: Object, key: str) -> tuple[str, ...]:
    """Return a list of strings; raises SnapshotError."""
    values = entry.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SnapshotError(f"{key}: not a list of strings")
    return tuple(values)


def count(entry: Object, key: str) -> int:
    """Return a number of something; raises SnapshotError."""
    value = entry.get(key)
    if type(value) is not int or value < 0:
        raise SnapshotError(f"{key}: not a count")
    return value


def time(entry: Object, key: str) -> str:
    """Return a time in RFC 3339, UTC, to the second; raises SnapshotError."""
    value = string(entry, key)
    if _TIME.fullmatch(value) is None:
        raise SnapshotError(f"{key}: not a time as 2026-01-02T03:04:05Z: {value!r:.40}")
    return value
