"""Record answers, mask credentials in them, and encode them as a directory, a tar or text.

A snapshot must not contain credentials from fstab, mount tables or the kernel command line.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import IO, Any

from ext4audit.evidence import Known, Unknown
from ext4audit.sources import (
    Answer,
    Ask,
    ReadFile,
    RunCommand,
    Source,
    decode,
    utc_now,
)
from ext4audit.sources.captured import BEGIN, END
from ext4audit.sources.containers import SNAPSHOT_LIMITS
from ext4audit.sources.snapshot import (
    ANSWERS,
    FORMAT,
    KINDS,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    MOST_ANSWERS,
    VERSION,
    SnapshotError,
)

TOP = "ext4audit-snapshot"
_COLUMNS_BYTES = 57
"""Bytes per line of base64: 76 columns (RFC 2045)."""


class RecordingSource(Source):
    """Forwards asks to another source and records every answer, including unknowns."""

    def __init__(self, inner: Source, clock: Callable[[], str] = utc_now) -> None:
        self._inner = inner
        self._clock = clock
        self._answers: dict[Ask, Answer] = {}
        self._times: dict[Ask, str] = {}

    @property
    def answers(self) -> Mapping[Ask, Answer]:
        """The asks so far and their latest answers."""
        return MappingProxyType(self._answers)

    @property
    def times(self) -> Mapping[Ask, str]:
        """The time of the first answer to each ask (RFC 3339, UTC)."""
        return MappingProxyType(self._times)

    def answer(self, ask: Ask) -> Answer:
        """Return the answer of the inner source."""
        answer: Answer = self._inner.fetch(ask)
        self._answers[ask] = answer
        if ask not in self._times:
            self._times[ask] = self._clock()
        return answer


def write_snapshot_tar(
    file: IO[bytes],
    answers: Mapping[Ask, Answer],
    *,
    taken_at: str,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
    masked: Sequence[str] = (),
) -> None:
    """Write a snapshot as tar.gz; equal answers produce identical bytes.

    `times`, `about` and `masked` are as in `encode`. All members are below one directory. Raises
    SnapshotError if the snapshot is too large to be read back, or OSError.
    """
    import gzip  # noqa: PLC0415 - takes 8 ms with tarfile, and only writing needs it
    import tarfile  # noqa: PLC0415 - the same

    files = encode(answers, taken_at, times=times, about=about, masked=masked)
    if len(files) > SNAPSHOT_LIMITS.most_entries - 2:
        raise SnapshotError(f"{len(files)} long answers are more than a tar snapshot can hold")
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(f"{TOP}/{name}")
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))


def wrap(content: bytes) -> str:
    """Return a snapshot as base64 lines between the markers."""
    starts = range(0, len(content), _COLUMNS_BYTES)
    lines = [base64.b64encode(content[at : at + _COLUMNS_BYTES]).decode() for at in starts]
    return "\n".join([BEGIN, *lines, END, ""])


MASKED_FILES = re.compile("/etc/fstab|/run/mount/utab|/proc/(?:cmdline|[^/]+/mountinfo)")
"""Files that may hold credentials, for example FUSE's `curlftpfs#user:word@host` mount source."""
MASK = "***"
# Keep in step with the collector's awk program. mount.cifs(8) doubles commas in passwords.
_CREDENTIAL = re.compile(
    r"""
      ( [\x20]" [^="\n]* (?:pass|secret|token|set_cred) [^="\n]* = ) [^"\n]+  # "key=some words"
    | ( (?:pass|secret|token|set_cred) [^=,\x01-\x20]* = )  # systemd.set_credential=name:word
        (?: "[^"]*" | ,, | [^,\x01-\x20] )+
    | ( user(?:name)?= [^%,\x01-\x20]* % ) (?: ,, | [^,\x01-\x20] )+       # user=name%word
    | ( : ) [^/,\x01-\x20]+ (?=@)                                           # user:word@host
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


def masked_text(text: str) -> str:
    """Return a text with each value that looks like a credential replaced by MASK."""
    return _CREDENTIAL.sub(lambda found: f"{found[found.lastindex or 0]}{MASK}", text)


def _masked(ask: Ask, text: str) -> str:
    """Return the text of an answer with credentials masked.

    dmsetup hides the keys of dm-crypt but not those of dm-integrity, which follow `):`.
    """
    if isinstance(ask, RunCommand) and ask.argv[:2] == ("dmsetup", "table"):
        return re.sub(r"(?<=\):)[^ \n]*", MASK, text)
    is_file = isinstance(ask, ReadFile) and MASKED_FILES.fullmatch(ask.path)
    return masked_text(text) if is_file else text


def mask(answers: Mapping[Ask, Answer]) -> tuple[dict[Ask, Answer], list[str]]:
    """Return the answers with credentials masked, and the paths of the files that had any."""
    masked, paths = dict(answers), []
    for ask, answer in answers.items():
        if not isinstance(answer, Known) or not isinstance(answer.value, str):
            continue
        if (text := _masked(ask, answer.value)) != answer.value:
            masked[ask] = Known(text, answer.origin)
            paths += [ask.path] if isinstance(ask, ReadFile) else []
    return masked, sorted(paths)


_INLINE_CHARACTERS = 160
_HEX_LINE_BYTES = 16
_INLINE_BYTES = 4096
_NAME_CHARACTERS = 150
_KIND_OF = {ask_class: (kind, arguments) for kind, (ask_class, arguments) in KINDS.items()}


def encode(
    answers: Mapping[Ask, Answer],
    taken_at: str,
    *,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
    masked: Sequence[str] = (),
) -> dict[str, bytes]:
    """Return the content of each file by name, with the manifest last.

    `times` holds the times of the answers, `about` optionally the `host` and the `tool`, and
    `masked` the paths of the files in which credentials were masked.

    Lone surrogates in texts, which `decode` makes of undecodable bytes, survive the round trip.
    Raises SnapshotError if the snapshot is too large to be read back.
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
    """Return the manifest entry of one answer; adds a long value to `files`."""
    kind, arguments = _KIND_OF[type(ask)]
    entry: dict[str, object] = {"ask": kind}
    entry |= {argument: getattr(ask, argument) for argument in arguments}
    if isinstance(answer, Unknown):
        entry["unknown"] = {**asdict(answer), "why": answer.why.value}
        return entry
    entry["origin"] = answer.origin
    if isinstance(answer.value, bytes):
        entry |= _bytes(answer.value, _file_stem(ask), files)
    elif kind == "list_dir":
        entry["names"] = answer.value.split("\0") if answer.value else []
    else:
        entry |= _text(answer.value, _file_stem(ask), files)
    return entry


def _bytes(value: bytes, stem: str, files: dict[str, bytes]) -> dict[str, object]:
    """Return short bytes as lines of hexadecimal, otherwise the name of a new file with them.

    Lines keep a diff of two snapshots small.
    """
    if len(value) > _INLINE_BYTES:
        return {"bytes_file": _written(value, stem, files)}
    starts = range(0, len(value), _HEX_LINE_BYTES)
    return {"hex": [value[start : start + _HEX_LINE_BYTES].hex() for start in starts]}


def _text(text: str, stem: str, files: dict[str, bytes]) -> dict[str, str]:
    """Return a short printable text itself, otherwise the name of a new file with the text."""
    raw = _raw(text)
    is_plain = len(text) <= _INLINE_CHARACTERS and text.replace("\n", "").isprintable()
    if raw is None or is_plain:
        return {"text": text}
    return {"text_file": _written(raw, stem, files)}


def _raw(text: str) -> bytes | None:
    """Return the bytes that decode to `text`, or None if there are none and JSON must hold it."""
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


def _written(content: bytes, stem: str, files: dict[str, bytes]) -> str:
    """Add a file and return its name, which is unique even on case-insensitive filesystems."""
    taken = {name.lower() for name in files}
    name, number = stem, 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}~{number}"
    files[name] = content
    return name
