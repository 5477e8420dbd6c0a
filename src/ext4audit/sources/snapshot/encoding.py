"""Encoding of answers to a snapshot's files; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ext4audit.evidence import Unknown
from ext4audit.sources.ask import Answer, Ask
from ext4audit.sources.snapshot.format import (
    ANSWERS,
    FORMAT,
    KINDS,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    MOST_ANSWERS,
    VERSION,
    SnapshotError,
)
from ext4audit.sources.text import decode

_INLINE_CHARACTERS = 160
_HEX_LINE_BYTES = 16
_INLINE_BYTES = 4096
_NAME_CHARACTERS = 150

_KIND_OF = {made: (kind, arguments) for kind, (made, arguments) in KINDS.items()}


def encode(
    answers: Mapping[Ask, Answer],
    taken_at: str,
    *,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, bytes]:
    """Return the content of each file by its name, the manifest last.

    `times` are the times of the answers; `about` is the `host` and the `tool`, if wanted.

    Texts are as `decode` makes them: lone surrogates stand for bytes and come back exactly.
    Raises SnapshotError for more than can be read back.
    """
    files: dict[str, bytes] = {}
    entries = []
    for ask in sorted(answers, key=_order):
        when = {"taken_at": times[ask]} if ask in times else {}
        entries.append(_entry(ask, answers[ask], files) | when)
    head = {"format": FORMAT, "version": VERSION, "taken_at": taken_at}
    manifest = {**head, **about, "answers": entries}
    content = (json.dumps(manifest, indent=2) + "\n").encode("ascii")
    if len(entries) > MOST_ANSWERS or len(content) > LARGEST_MANIFEST_BYTES:
        raise SnapshotError(f"{len(entries)} answers are more than a snapshot can hold")
    files[MANIFEST] = content
    return files


def _order(ask: Ask) -> tuple[str, list[Any]]:
    kind, arguments = _KIND_OF[type(ask)]
    return kind, [getattr(ask, argument) for argument in arguments]


def _entry(ask: Ask, answer: Answer, files: dict[str, bytes]) -> dict[str, object]:
    """Return the entry of one answer; a longer value goes into `files`."""
    kind, arguments = _KIND_OF[type(ask)]
    entry: dict[str, object] = {"ask": kind}
    entry |= {argument: getattr(ask, argument) for argument in arguments}
    if isinstance(answer, Unknown):
        entry["unknown"] = _unknown(answer)
        return entry
    entry["origin"] = answer.origin
    if isinstance(answer.value, bytes):
        entry |= _bytes(answer.value, _file_stem(ask), files)
    elif kind == "list_dir":
        entry["names"] = answer.value.split("\0") if answer.value else []
    else:
        entry |= _text(answer.value, _file_stem(ask), files)
    return entry


def _unknown(unknown: Unknown) -> dict[str, str]:
    return {
        "what": unknown.what,
        "why": unknown.why.value,
        "detail": unknown.detail,
        "hint": unknown.hint,
    }


def _bytes(value: bytes, stem: str, files: dict[str, bytes]) -> dict[str, object]:
    """Return hexadecimal lines when they are few, else the name of the file of the bytes."""
    if len(value) <= _INLINE_BYTES:
        return {"hex": _hex_lines(value)}
    name = _free_name(stem, files)
    files[name] = value
    return {"bytes_file": name}


def _hex_lines(value: bytes) -> list[str]:
    """Return hexadecimal lines, so that two snapshots differ where the bytes differ."""
    starts = range(0, len(value), _HEX_LINE_BYTES)
    return [value[start : start + _HEX_LINE_BYTES].hex() for start in starts]


def _text(text: str, stem: str, files: dict[str, bytes]) -> dict[str, str]:
    """Return the text itself when it is short and printable, else the name of its file."""
    raw = _raw(text)
    is_plain = len(text) <= _INLINE_CHARACTERS and text.replace("\n", "").isprintable()
    if raw is None or is_plain:
        return {"text": text}
    name = _free_name(stem, files)
    files[name] = raw
    return {"text_file": name}


def _raw(text: str) -> bytes | None:
    """Return the bytes that decode to `text`; None where no bytes do (JSON holds it then)."""
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return raw if decode(raw) == text else None


def _file_stem(ask: Ask) -> str:
    """Return a safe and readable file name: `run_command.dumpe2fs_-h_dev_md127`."""
    kind, values = _order(ask)
    arguments_text = " ".join(" ".join(v) if isinstance(v, tuple) else str(v) for v in values)
    safe = re.sub(r"[^A-Za-z0-9=+:,@.-]+", "_", arguments_text).strip("_")
    return f"{ANSWERS}/{kind}.{safe}"[:_NAME_CHARACTERS]


def _free_name(stem: str, files: Mapping[str, bytes]) -> str:
    """Make the name unique, also where a file system or an archive folds case."""
    taken = {name.lower() for name in files}
    name, number = stem, 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}~{number}"
    return name
