"""Decoding of a snapshot's files to answers; pure, strict, and safe with hostile input."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    Ask,
    FilesystemUuid,
    ListDir,
    ReadBytes,
    RunCommand,
    TuneSuperblock,
    Unanswered,
    denied_hint,
    describe,
    whole,
)
from ext4audit.sources import decode as decode_text
from ext4audit.sources.live import commands
from ext4audit.sources.snapshot.format import (
    ANSWER_FILE,
    KINDS,
    LARGEST_TOTAL_BYTES,
    MOST_ANSWERS,
    Object,
    SnapshotError,
    checked,
    count,
    parse_manifest,
    string,
    strings,
    time,
)

RAW_RUN = {"status", "timed_out", "stdout", "stderr"}
"""The keys of a raw run; `status` is null where the program was not waited for."""
_NOT_FOUND = 127
"""The exit status of a shell, env(1) and timeout(1) for a missing program."""
_TOP = {"format", "version", "taken_at", "answers"}
_ABOUT = frozenset({"host", "tool"})
_TIMED = frozenset({"taken_at"})
ReadAnswer: TypeAlias = Callable[[str], bytes]


def decode(manifest: bytes, read: ReadAnswer) -> tuple[dict[Ask, Answer], str]:
    """Return the answers and the time they were taken.

    `read` returns the content of an answer file; it is called with names that match
    `ANSWER_FILE` only, each of them once. Raises SnapshotError.
    """
    top = checked(parse_manifest(manifest), _TOP, "manifest", _ABOUT | {"masked"})
    taken_at, entries = time(top, "taken_at"), top["answers"]
    for key in top.keys() & _ABOUT:
        string(top, key)
    if "masked" in top:
        strings(top, "masked")
    if not isinstance(entries, list) or len(entries) > MOST_ANSWERS:
        raise SnapshotError(f"answers: not a list of at most {MOST_ANSWERS} entries")
    files, is_root = _Files(read), any(map(_is_root, entries))
    answers: dict[Ask, Answer] = {}
    for number, entry in enumerate(entries):
        try:
            ask, rest = _ask_of(entry)
            answer = whole(ask, _answer(ask, rest, files, is_root=is_root))
        except SnapshotError as error:
            raise SnapshotError(f"answers[{number}]: {error}") from None
        if ask in answers:
            raise SnapshotError(f"answers[{number}]: duplicate ask")
        answers[ask] = answer
    return answers, taken_at


def judged_run(ask: RunCommand, run: Object, *, is_root: bool) -> Evidence[str]:
    """Return the answer that a raw run gives; raises SnapshotError for a malformed one."""
    what, checked_run = describe(ask), _checked_run(run)
    try:
        return Known(_output(ask.argv[0], checked_run, denied_hint(is_root=is_root)), what)
    except Unanswered as unanswered:
        return unanswered.unknown(what)


class _Run(NamedTuple):
    status: int | None
    timed_out: bool
    stdout: str
    stderr: str


def _output(name: str, run: _Run, hint_when_denied: str) -> str:
    """Return the output of a program that succeeded; raises Unanswered for one that failed."""
    if run.timed_out:
        again = "capture again with a longer timeout"
        raise Unanswered(Why.TIMED_OUT, "no answer in time", again)
    if run.status is None:
        raise Unanswered(Why.FAILED, "its exit status was not recorded")
    if run.status == _NOT_FOUND:
        raise commands.absent(name)
    return commands.judge(name, run.status, run.stdout, run.stderr, hint_when_denied)


def _checked_run(run: Object) -> _Run:
    """Check the types of a raw run."""
    status = run["status"]
    if status is not None and type(status) is not int:
        raise SnapshotError("status: neither a number nor null")
    if type(run["timed_out"]) is not bool:
        raise SnapshotError("timed_out: neither true nor false")
    return _Run(status, run["timed_out"], string(run, "stdout"), string(run, "stderr"))


def _is_root(entry: object) -> bool:
    """Whether this entry records that root took the snapshot."""
    if not isinstance(entry, dict):
        return False
    return entry.get("ask") == "effective_user" and entry.get("text") == "0"


class _Files:
    """Reads answer files, each once, within the total."""

    def __init__(self, read: ReadAnswer) -> None:
        self._read = read
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
        return raw


def _ask_of(value: object) -> tuple[Ask, Object]:
    """Return the ask of an entry, and the keys that hold the answer."""
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
    """Decode an answer in one of the forms that its ask allows."""
    if "unknown" in rest:
        return _unknown(checked(rest, {"unknown"}, "entry", _TIMED)["unknown"])
    if isinstance(ask, RunCommand) and "status" in rest:
        run = checked(rest, RAW_RUN, "entry", _TIMED)
        return judged_run(ask, run, is_root=is_root)
    form = next(form for form in _forms(ask) if form in rest or form == _forms(ask)[-1])
    entry = checked(rest, {"origin", form}, "entry", _TIMED)
    origin = string(entry, "origin")
    if isinstance(ask, TuneSuperblock | FilesystemUuid | ReadBytes):
        return Known(_bytes(entry, form, files), origin)
    return Known(_text(entry, form, files), origin)


def _forms(ask: Ask) -> tuple[str, ...]:
    """Return the keys that can hold the answer; the last is the one that errors name."""
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


def _text(entry: Object, form: str, files: _Files) -> str:
    if form == "names":
        return "\0".join(strings(entry, form))
    return decode_text(files.content(entry, form)) if form == "text_file" else string(entry, form)


def _bytes(entry: Object, form: str, files: _Files) -> bytes:
    if form == "bytes_file":
        return files.content(entry, form)
    if form == "base64":
        return _base64(string(entry, form))
    digits = "".join(strings(entry, form))
    if re.fullmatch(r"(?:[0-9a-f]{2})*", digits) is None:
        raise SnapshotError("hex: not pairs of hexadecimal digits")
    return bytes.fromhex(digits)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SnapshotError(f"base64: {error}") from None
