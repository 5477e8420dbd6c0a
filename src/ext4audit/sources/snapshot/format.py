"""The snapshot format, version 1: its vocabulary, its limits, its error, and strict JSON access.

A snapshot is a directory, or its files in a tar, that people can read and compare; or its
manifest alone, with every answer inline. `manifest.json` holds when it was taken (`taken_at`),
perhaps of which `host` and by which `tool`, the files in which credentials are `masked`, and one
entry an answer. An entry names the ask and its argument, perhaps the time of this answer
(`taken_at`), then holds the `unknown` that was the answer, or `origin` and one of

- `text`: a short printable text;
- `text_file`: a file under `answers/` that holds any other text, byte by byte as it was read;
- `names`: the names in a directory;
- `hex`: bytes, in lines of pairs of digits; or `base64`; or `bytes_file`, a file of the bytes.

A `run_command` may instead hold how the program ended: `status` (null where it was not waited for),
`timed_out`, `stdout` and `stderr`. The reader interprets it as the live source does its own runs.

Programs write ASCII JSON. The shell collector writes what it read: bytes in a string that are
not UTF-8 come back as themselves (surrogateescape).

Below: the encoding of answers to a snapshot's files; pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from ext4audit import sources as asks
from ext4audit.evidence import Unknown
from ext4audit.sources import Answer, Ask, decode

FORMAT = "ext4audit-snapshot"
VERSION = 1
MANIFEST = "manifest.json"
ANSWERS = "answers"

# Room for 10,000 devices with ten answers each; beyond that a snapshot is an attack on memory.
MOST_ANSWERS = 100_000
# The group descriptors of 64 TiB are 32 MiB, and twice that in hexadecimal.
LARGEST_MANIFEST_BYTES = 128 << 20
# No less than commands.LARGEST_OUTPUT_BYTES: what can be captured can be read back.
LARGEST_ANSWER_BYTES = 64 << 20
LARGEST_TOTAL_BYTES = 256 << 20

# No folder below `answers`, no leading dot: such a name cannot leave the directory.
ANSWER_FILE = re.compile(ANSWERS + r"/[A-Za-z0-9_=+:,@-][A-Za-z0-9_=+:,@.~-]{0,199}")

# The names in the format, independent of the names of the classes: kind -> class and arguments.
KINDS: dict[str, tuple[Callable[..., Ask], tuple[str, ...]]] = {
    "read_file": (asks.ReadFile, ("path",)),
    "list_dir": (asks.ListDir, ("path",)),
    "run_command": (asks.RunCommand, ("argv",)),
    "uname": (asks.Uname, ()),
    "virtual_memory": (asks.VirtualMemory, ()),
    "effective_user": (asks.EffectiveUser, ()),
    "udev_database": (asks.UdevDatabase, ("device_number",)),
    "resolve_path": (asks.ResolvePath, ("path",)),
    "real_path": (asks.RealPath, ("path",)),
    "stat_filesystem": (asks.StatFilesystem, ("path",)),
    "captured_dumpe2fs": (asks.CapturedDumpe2fs, ("path",)),
    "tune_superblock": (asks.TuneSuperblock, ("mount_point",)),
    "filesystem_uuid": (asks.FilesystemUuid, ("mount_point",)),
    "read_bytes": (asks.ReadBytes, ("path", "offset_bytes", "length_bytes", "reading")),
}


class SnapshotError(ValueError):
    """A snapshot that is malformed, of another version, or beyond the limits."""


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
    """Refuse a duplicate key: one of the two would be lost silently."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise SnapshotError("duplicate key in an object")
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
    if _TIME.fullmatch(value) is None or not _is_possible(value):
        raise SnapshotError(f"{key}: not a time as 2026-01-02T03:04:05Z: {value!r:.40}")
    return value


def _is_possible(time: str) -> bool:
    """Whether the calendar and the clock have such a time."""
    try:
        datetime.fromisoformat(time.removesuffix("Z"))
    except ValueError:
        return False
    return True


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
    masked: Sequence[str] = (),
) -> dict[str, bytes]:
    """Return the content of each file by its name, the manifest last.

    `times` are the times of the answers; `about` is the `host` and the `tool`, if wanted; `masked`
    are the paths of the files in which credentials were masked.

    Texts are as `decode` makes them: lone surrogates stand for bytes and come back exactly.
    Raises SnapshotError for more than can be read back.
    """
    files: dict[str, bytes] = {}
    entries = []
    for ask in sorted(answers, key=_order):
        when = {"taken_at": times[ask]} if ask in times else {}
        entries.append(_entry(ask, answers[ask], files) | when)
    head = {"format": FORMAT, "version": VERSION, "taken_at": taken_at}
    note = {"masked": [*masked]} if masked else {}
    manifest = {**head, **about, **note, "answers": entries}
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
