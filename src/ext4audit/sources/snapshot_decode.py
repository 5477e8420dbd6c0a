"""From the files of a snapshot to its answers; pure, strict, and safe to feed with anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import Answer, Ask, FilesystemUuid, ListDir, TuneSuperblock
from ext4audit.sources.snapshot_format import (
    ANSWER_FILE,
    FORMAT,
    KINDS,
    LARGEST_TOTAL_BYTES,
    MOST_ANSWERS,
    VERSION,
    SnapshotError,
)
from ext4audit.sources.text import decode as decode_text

Object: TypeAlias = Mapping[str, Any]
ReadAnswer: TypeAlias = Callable[[str], bytes]


def decode(manifest: bytes, read: ReadAnswer) -> tuple[dict[Ask, Answer], str]:
    """Return the answers and the time they were taken.

    `read` gives the content of an answer file; it is called with names that match
    `snapshot_format.ANSWER_FILE` only, each of them once. Raises SnapshotError.
    """
    top = _object(_parse(manifest), {"format", "version", "taken_at", "answers"}, "manifest")
    taken_at, entries = _string(top, "taken_at"), top["answers"]
    if not isinstance(entries, list) or len(entries) > MOST_ANSWERS:
        raise SnapshotError(f"answers: not a list of at most {MOST_ANSWERS} entries")
    files = _Files(read)
    answers: dict[Ask, Answer] = {}
    for number, entry in enumerate(entries):
        try:
            ask, answer = _entry(entry, files)
        except SnapshotError as error:
            raise SnapshotError(f"answers[{number}]: {error}") from None
        if ask in answers:
            raise SnapshotError(f"answers[{number}]: the same ask a second time")
        answers[ask] = answer
    return answers, taken_at


class _Files:
    """Reads answer files, each once, within the total."""

    def __init__(self, read: ReadAnswer) -> None:
        self._read = read
        self._seen: set[str] = set()
        self._room_bytes = LARGEST_TOTAL_BYTES

    def text(self, name: str) -> str:
        if ANSWER_FILE.fullmatch(name) is None:
            raise SnapshotError(f"text_file: not the name of an answer file: {name!r:.200}")
        if name in self._seen:
            raise SnapshotError(f"text_file: {name} is another answer's too")
        self._seen.add(name)
        raw = self._read(name)
        self._room_bytes -= len(raw)
        if self._room_bytes < 0:
            raise SnapshotError(f"the answers are larger than {LARGEST_TOTAL_BYTES} bytes")
        return decode_text(raw)


def _parse(manifest: bytes) -> object:
    """Parse JSON and check the version, before anything else of the shape is relied on."""
    try:
        top = json.loads(manifest.decode("utf-8"), object_pairs_hook=_unique)
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


def _entry(value: object, files: _Files) -> tuple[Ask, Answer]:
    """Decode one entry."""
    if not isinstance(value, dict):
        raise SnapshotError("not an object")
    kind = _string(value, "ask")
    if kind not in KINDS:
        raise SnapshotError(f"no such ask: {kind!r:.200}")
    make, argument = KINDS[kind]
    ask = make() if argument is None else make(_argument(value, argument))
    rest = {key: value[key] for key in value if key not in {"ask", argument}}
    if "unknown" in rest:
        return ask, _unknown(_object(rest, {"unknown"}, "entry")["unknown"])
    return ask, _known(ask, rest, files)


def _argument(entry: Object, key: str) -> Any:  # noqa: ANN401 - str, or the words of a command
    if key != "argv":
        return _string(entry, key)
    words = _strings(entry, key)
    if not words:
        raise SnapshotError("argv: empty")
    return words


def _unknown(value: object) -> Unknown:
    hole = _object(value, {"what", "why", "detail", "hint"}, "unknown")
    try:
        why = Why(_string(hole, "why"))
    except ValueError as error:
        raise SnapshotError(f"why: {error}") from None
    return Unknown(_string(hole, "what"), why, _string(hole, "detail"), _string(hole, "hint"))


def _known(ask: Ask, rest: Object, files: _Files) -> Known[str] | Known[bytes]:
    """Decode an answer in the one form, or the two, that its ask allows."""
    if isinstance(ask, TuneSuperblock | FilesystemUuid):
        checked = _object(rest, {"origin", "hex"}, "entry")
        return Known(_bytes(checked), _string(checked, "origin"))
    form = "names" if isinstance(ask, ListDir) else "text_file" if "text_file" in rest else "text"
    checked = _object(rest, {"origin", form}, "entry")
    return Known(_text(checked, form, files), _string(checked, "origin"))


def _bytes(entry: Object) -> bytes:
    digits = "".join(_strings(entry, "hex"))
    if re.fullmatch(r"(?:[0-9a-f]{2})*", digits) is None:
        raise SnapshotError("hex: not pairs of hexadecimal digits")
    return bytes.fromhex(digits)


def _text(entry: Object, form: str, files: _Files) -> str:
    if form == "names":
        return "\0".join(_strings(entry, form))
    text = _string(entry, form)
    return files.text(text) if form == "text_file" else text


def _object(value: object, keys: set[str], what: str) -> Object:
    """Return an object that has these keys and no other: a misspelt key is not ignored."""
    if not isinstance(value, dict) or value.keys() != keys:
        raise SnapshotError(f"{what}: not an object of {', '.join(sorted(keys))}")
    return value


def _string(entry: Object, key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise SnapshotError(f"{key}: not a string")
    return value


def _strings(entry: Object, key: str) -> tuple[str, ...]:
    values = entry.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SnapshotError(f"{key}: not a list of strings")
    return tuple(values)
