"""The snapshot format, version 1: its vocabulary, its limits, and a strict decoder.

A snapshot is a directory of readable, comparable files, a tar of these files, or a manifest alone
with all answers inline. `manifest.json` holds the time of the snapshot (`taken_at`), optionally
the `host`, the `tool`, and the files in which credentials were `masked`, and one entry per answer.
An entry names the ask and its arguments, and optionally the time of the answer (`taken_at`). The
answer itself is `unknown`, or `origin` together with one of

- `text`: a short printable text;
- `text_file`: the name of a file under `answers/` that holds any other text, byte for byte;
- `names`: the names in a directory;
- `hex` (lines of hexadecimal digits), `base64`, or `bytes_file` (the name of a file): bytes.

A `run_command` may instead record how the program ended: `status` (null if it was not waited for),
`timed_out`, `stdout` and `stderr`. The decoder interprets them in the same way as the live source.

`writing` produces ASCII JSON. The shell collector writes strings as it read them: bytes that are
not UTF-8 are preserved (surrogateescape).

The decoder has no side effects and is safe for untrusted input; `writing` is its counterpart.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

from ext4audit import sources as asks
from ext4audit.evidence import CaptureHint, Evidence, Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    Ask,
    EvidenceError,
    FilesystemUuid,
    ListDir,
    ReadBytes,
    RunCommand,
    TuneSuperblock,
    Unanswered,
    absent,
    checked_output,
    denied_hint,
    describe,
    refuse_damaged,
    why_no_json,
)
from ext4audit.sources import decode as decode_text

FORMAT = "ext4audit-snapshot"
VERSION = 1
MANIFEST = "manifest.json"
ANSWERS = "answers"

# Enough for 10,000 devices with ten answers each; more would be an attempt to exhaust memory.
MOST_ANSWERS = 100_000
# The group descriptors of 64 TiB take 32 MiB, and twice that in hexadecimal.
LARGEST_MANIFEST_BYTES = 128 << 20
# At least commands.LARGEST_OUTPUT_BYTES, so that everything that was captured can be read back.
LARGEST_ANSWER_BYTES = 64 << 20
LARGEST_TOTAL_BYTES = 256 << 20

# Without subfolders or a leading dot, a name cannot point outside the directory.
ANSWER_FILE = re.compile(ANSWERS + r"/[A-Za-z0-9_=+:,@-][A-Za-z0-9_=+:,@.~-]{0,199}")

# Maps the kinds of asks in the format to classes and arguments, independently of class names.
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


class SnapshotError(EvidenceError):
    """A snapshot that is malformed, has another version, or exceeds the limits."""


Object: TypeAlias = Mapping[str, Any]

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def parse_manifest(manifest: bytes) -> object:
    """Parse the JSON and check format and version only; raises SnapshotError.

    A string may contain bytes that are not UTF-8, because the shell collector cannot escape them.
    """
    try:
        top = json.loads(decode_text(manifest), object_pairs_hook=_unique)
    except SnapshotError:
        raise
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {why_no_json(error)}") from None
    if not isinstance(top, dict) or top.get("format") != FORMAT:
        is_report = isinstance(top, dict) and "schema_version" in top
        other = ", but a report, which diff and --baseline read" if is_report else ""
        raise SnapshotError(f"not a manifest of the format {FORMAT}{other}")
    version = top.get("version")
    if type(version) is not int or version != VERSION:
        raise SnapshotError(f"version {version!r:.40} of the format; this program reads {VERSION}")
    return top


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raises SnapshotError for duplicate keys, which json would silently drop."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise SnapshotError("duplicate key in an object")
    return result


def checked(
    value: object, keys: set[str], what: str, optional: frozenset[str] = frozenset()
) -> Object:
    """Return `value` if it is an object with `keys`, and no others except `optional` ones.

    Raises SnapshotError, so that a misspelt key is not ignored. `what` is its name in the message.
    """
    if isinstance(value, dict) and keys <= value.keys() <= keys | optional:
        return value
    perhaps = f" (perhaps {', '.join(sorted(optional))})" if optional else ""
    raise SnapshotError(f"{what}: not an object of {', '.join(sorted(keys))}{perhaps}")


def string(entry: Object, key: str) -> str:
    """Return the value of `key`; raises SnapshotError if it is not a string."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise SnapshotError(f"{key}: not a string")
    return value


def strings(entry: Object, key: str) -> tuple[str, ...]:
    """Return the value of `key`; raises SnapshotError if it is not a list of strings."""
    values = entry.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SnapshotError(f"{key}: not a list of strings")
    return tuple(values)


def count(entry: Object, key: str) -> int:
    """Return the value of `key`; raises SnapshotError if it is not an integer of at least 0."""
    value = entry.get(key)
    if type(value) is not int or value < 0:
        raise SnapshotError(f"{key}: not a count")
    return value


def time(entry: Object, key: str) -> str:
    """Return the value of `key`; raises SnapshotError if not like 2026-01-02T03:04:05Z."""
    value = string(entry, key)
    with suppress(ValueError):  # a day or an hour that does not exist
        if _TIME.fullmatch(value):
            datetime.fromisoformat(value.removesuffix("Z"))
            return value
    raise SnapshotError(f"{key}: not a time as 2026-01-02T03:04:05Z: {value!r:.40}")


RAW_RUN = {"status", "timed_out", "stdout", "stderr"}
"""The keys of a recorded run; `status` is null if the program was not waited for."""
_NOT_FOUND = 127
"""The exit status of a shell, env(1) and timeout(1) if a program is missing."""
_TOP = {"format", "version", "taken_at", "answers"}
_ABOUT = frozenset({"host", "tool"})
_TIMED = frozenset({"taken_at"})
ReadAnswer: TypeAlias = Callable[[str], bytes]


def decode(manifest: bytes, read: ReadAnswer) -> tuple[dict[Ask, Answer], str]:
    """Return the answers of a snapshot, and the time it was taken; raises SnapshotError.

    `read` returns the content of an answer file. It is called only with names that match
    `ANSWER_FILE`, and at most once for each.
    """
    top = checked(parse_manifest(manifest), _TOP, "manifest", _ABOUT | {"masked"})
    taken_at, entries = time(top, "taken_at"), top["answers"]
    for key in top.keys() & _ABOUT:
        string(top, key)
    if "masked" in top:
        strings(top, "masked")
    if not isinstance(entries, list) or len(entries) > MOST_ANSWERS:
        raise SnapshotError(f"answers: not a list of at most {MOST_ANSWERS} entries")
    files, is_root = _Files(read, _CRLF in manifest), any(map(_is_root, entries))
    answers: dict[Ask, Answer] = {}
    for number, entry in enumerate(entries):
        try:
            ask, rest = _ask_of(entry)
            answer = refuse_damaged(ask, _answer(ask, rest, files, is_root=is_root))
        except SnapshotError as error:
            raise SnapshotError(f"answers[{number}]: {error}") from None
        if ask in answers:
            raise SnapshotError(f"answers[{number}]: duplicate ask")
        answers[ask] = answer
    return answers, taken_at


def judged_run(ask: RunCommand, run: Object, *, is_root: bool) -> Evidence[str]:
    """Return the answer that a recorded run gives; raises SnapshotError if it is malformed."""
    what, status, timed_out = describe(ask), run["status"], run["timed_out"]
    if status is not None and type(status) is not int:
        raise SnapshotError("status: neither a number nor null")
    if type(timed_out) is not bool:
        raise SnapshotError("timed_out: neither true nor false")
    stdout, stderr = string(run, "stdout"), string(run, "stderr")
    if timed_out:
        again = CaptureHint("capture again with a longer timeout")
        return Unknown(what, Why.TIMED_OUT, "no answer in time", again)
    if status is None:
        return Unknown(what, Why.FAILED, "its exit status was not recorded")
    if status == _NOT_FOUND:
        return absent(ask.argv[0]).unknown(what)
    hint = denied_hint(is_root=is_root)
    try:
        return Known(checked_output(ask.argv[0], status, stdout, stderr, hint), what)
    except Unanswered as unanswered:
        return unanswered.unknown(what)


def _is_root(entry: object) -> bool:
    """Return whether an entry records that root took the snapshot."""
    if not isinstance(entry, dict):
        return False
    return entry.get("ask") == "effective_user" and entry.get("text") == "0"


_CRLF = b"\r\n"
"""Never between the values of a manifest that was not converted; inside a string it is escaped."""


class _Files:
    """Reads answer files, each at most once, within LARGEST_TOTAL_BYTES.

    Texts are refused if their line ends were converted with those of the manifest, as git does
    with core.autocrlf: the last value of each line would be another one.
    """

    def __init__(self, read: ReadAnswer, is_converted: bool) -> None:
        self._read = read
        self._is_converted = is_converted
        self._seen: set[str] = set()
        self._room_bytes = LARGEST_TOTAL_BYTES

    def content(self, entry: Object, key: str) -> bytes:
        """Return the content of the file that `key` names; raises SnapshotError."""
        name = string(entry, key)
        if ANSWER_FILE.fullmatch(name) is None:
            raise SnapshotError(f"{key}: not the name of an answer file: {name!r:.200}")
        if name in self._seen:
            raise SnapshotError(f"{key}: {name} is another answer's too")
        self._seen.add(name)
        raw = self._read(name)
        self._room_bytes -= len(raw)
        if self._room_bytes < 0:
            raise SnapshotError(f"the answers are larger than {LARGEST_TOTAL_BYTES} bytes")
        if self._is_converted and 0 < raw.count(b"\n") == raw.count(_CRLF):
            why = "has the line ends of Windows (CRLF): copy the snapshot without converting them"
            raise SnapshotError(f"{name} {why}")
        return raw


def _ask_of(value: object) -> tuple[Ask, Object]:
    """Return the ask of an entry, and the rest of the entry; raises SnapshotError."""
    if not isinstance(value, dict):
        raise SnapshotError("not an object")
    kind = string(value, "ask")
    if kind not in KINDS:
        raise SnapshotError(f"no such ask: {kind!r:.200}")
    make, arguments = KINDS[kind]
    ask = make(*(_argument(value, argument) for argument in arguments))
    if "taken_at" in value:
        time(value, "taken_at")
    return ask, {key: value[key] for key in value if key not in {"ask", *arguments}}


def _argument(entry: Object, key: str) -> Any:  # noqa: ANN401 - str, number or argv
    if key in {"offset_bytes", "length_bytes", "reading"}:
        return count(entry, key)
    if key != "argv":
        return string(entry, key)
    argv = strings(entry, key)
    if not argv:
        raise SnapshotError("argv: empty")
    return argv


def _answer(ask: Ask, rest: Object, files: _Files, *, is_root: bool) -> Answer:
    """Decode an answer in one of the forms that its ask allows; raises SnapshotError."""
    if "unknown" in rest:
        return _unknown(checked(rest, {"unknown"}, "entry", _TIMED)["unknown"])
    if isinstance(ask, RunCommand) and "status" in rest:
        run = checked(rest, RAW_RUN, "entry", _TIMED)
        return judged_run(ask, run, is_root=is_root)
    form = next(form for form in _forms(ask) if form in rest or form == _forms(ask)[-1])
    entry = checked(rest, {"origin", form}, "entry", _TIMED)
    origin = string(entry, "origin")
    return Known(_value(entry, form, files), origin)


def _forms(ask: Ask) -> tuple[str, ...]:
    """Return the keys that can hold the answer; error messages name the last one."""
    if isinstance(ask, TuneSuperblock | FilesystemUuid | ReadBytes):
        return ("bytes_file", "base64", "hex")
    return ("names",) if isinstance(ask, ListDir) else ("text_file", "text")


def _unknown(value: object) -> Unknown:
    fields = checked(value, {"what", "why", "detail", "hint"}, "unknown")
    try:
        why = Why(string(fields, "why"))
    except ValueError as error:
        raise SnapshotError(f"why: {error}") from None
    return Unknown(string(fields, "what"), why, string(fields, "detail"), string(fields, "hint"))


def _value(entry: Object, form: str, files: _Files) -> Any:  # noqa: ANN401 - text or bytes
    if form in {"text_file", "bytes_file"}:
        content = files.content(entry, form)
        return decode_text(content) if form == "text_file" else content
    if form == "text":
        return string(entry, form)
    if form == "base64":
        return _base64(string(entry, form))
    if form == "names":
        return "\0".join(strings(entry, form))
    digits = "".join(strings(entry, form))
    if re.fullmatch(r"(?:[0-9a-f]{2})*", digits) is None:
        raise SnapshotError("hex: not pairs of hexadecimal digits")
    return bytes.fromhex(digits)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise SnapshotError(f"base64: {error}") from None
