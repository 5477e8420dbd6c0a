"""Snapshots, our own format of a host's answers: read from a directory, unwrapped, replayed."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import overload

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    Ask,
    BytesAsk,
    ReadBytes,
    TextAsk,
    describe,
)
from ext4audit.sources.snapshot.format import (
    ANSWERS,
    LARGEST_ANSWER_BYTES,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    SnapshotError,
    decode,
)
from ext4audit.sources.waiting import BoundedCalls

BEGIN = "-----BEGIN EXT4AUDIT SNAPSHOT-----"
END = "-----END EXT4AUDIT SNAPSHOT-----"
_BETWEEN = re.compile(re.escape(BEGIN.encode()) + rb"([A-Za-z0-9+/=\s]*)" + re.escape(END.encode()))


class MapSource:
    """Replays answers; one that was recorded as unknown is the same unknown.

    Bytes that lie within others that were recorded are answered from those: the shell collector
    takes all group descriptors at once where a live source reads some.
    """

    def __init__(self, answers: Mapping[Ask, Answer]) -> None:
        self._answers = dict(answers)
        self._read = [ask for ask in self._answers if isinstance(ask, ReadBytes)]

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Return the recorded answer, or NOT_CAPTURED."""
        hint = "capture again with ext4audit collect"
        answer = self._answers.get(ask) or (self._part(ask) if isinstance(ask, ReadBytes) else None)
        return answer or Unknown(describe(ask), Why.NOT_CAPTURED, hint=hint)

    def _part(self, ask: ReadBytes) -> Known[bytes] | None:
        """Return bytes out of a longer answer about the same path and reading."""
        for whole in self._read:
            start = ask.offset_bytes - whole.offset_bytes
            inside = 0 <= start <= whole.length_bytes - ask.length_bytes
            if not inside or (whole.path, whole.reading) != (ask.path, ask.reading):
                continue
            answer = self._answers[whole]
            if isinstance(answer, Known) and isinstance(answer.value, bytes):
                return Known(answer.value[start : start + ask.length_bytes], answer.origin)
        return None


def read_snapshot(directory: Path, calls: BoundedCalls | None = None) -> tuple[MapSource, str]:
    """Return the source that replays a snapshot, and the time it was taken.

    Raises SnapshotError for anything that is not a snapshot of this version. The directory is
    untrusted: no symbolic link in it is followed, and nothing but files is opened. It may lie on a
    dead server: `calls` bounds the wait for each file, and the first that was in vain is the last.
    """
    bounded = BoundedCalls() if calls is None else calls

    def answer(name: str) -> bytes:
        return bounded(partial(_answer, directory, name))

    try:
        manifest = bounded(partial(_content, directory / MANIFEST, LARGEST_MANIFEST_BYTES))
        answers, taken_at = decode(manifest, answer)
    except (TimeoutError, SnapshotError) as error:
        raise SnapshotError(f"{directory}: {error}") from None
    return MapSource(answers), taken_at


def _answer(directory: Path, name: str) -> bytes:
    """Read an answer file, where `answers` is a directory and no link."""
    if not stat.S_ISDIR(_status(directory / ANSWERS).st_mode):
        raise SnapshotError(f"{ANSWERS}: not a directory")
    return _content(directory / name, LARGEST_ANSWER_BYTES)


def _content(path: Path, limit_bytes: int) -> bytes:
    """Read a regular file of at most `limit_bytes`; raises SnapshotError."""
    status = _status(path)
    if not stat.S_ISREG(status.st_mode):
        raise SnapshotError(f"{path.name}: not a regular file")
    if status.st_size > limit_bytes:
        raise SnapshotError(f"{path.name}: larger than {limit_bytes} bytes")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, opened with NOFOLLOW
            return file.read(limit_bytes)
    except OSError as error:
        raise SnapshotError(f"{path.name}: {error.strerror}") from None


def _status(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except OSError as error:
        raise SnapshotError(f"{path.name}: {error.strerror}") from None


def is_wrapped(text: bytes) -> bool:
    """Whether a snapshot begins somewhere in a text."""
    return BEGIN.encode() in text


def unwrap(text: bytes) -> bytes:
    """Return what stands between the markers; raises SnapshotError.

    A pty writes CR LF and may fold lines, a login shell prints before and after: white space inside
    the markers and everything outside them is ignored.
    """
    if text.count(BEGIN.encode()) != 1:
        raise SnapshotError(f"{text.count(BEGIN.encode())} snapshots in one text")
    found = _BETWEEN.search(text)
    if found is None:
        raise SnapshotError("truncated, or mixed with other text, between its markers")
    try:
        return base64.b64decode(b"".join(found[1].split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SnapshotError(f"damaged base64: {error}") from None
