"""Snapshots: what a host answered, written down to be read again anywhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import overload

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources.ask import Answer, Ask, BytesAsk, ReadBytes, TextAsk, describe
from ext4audit.sources.snapshot_decode import decode
from ext4audit.sources.snapshot_encode import encode
from ext4audit.sources.snapshot_format import (
    ANSWERS,
    LARGEST_ANSWER_BYTES,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    SnapshotError,
)

__all__ = ["MapSource", "SnapshotError", "read_snapshot", "write_snapshot"]


class MapSource:
    """Replays answers; what was recorded as unknown is unknown again, in the same words.

    Bytes that lie within others that were recorded are answered from those: the shell collector
    takes all group descriptors at once where a live source looks at some.
    """

    def __init__(self, answers: Mapping[Ask, Answer]) -> None:
        self._answers = dict(answers)
        self._read = [ask for ask in self._answers if isinstance(ask, ReadBytes)]

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Return the recorded answer, or a hole that says it was not captured."""
        hint = "capture again with this version: ext4audit collect"
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


def write_snapshot(
    directory: Path,
    answers: Mapping[Ask, Answer],
    *,
    taken_at: str,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a snapshot into a new or empty directory; `taken_at` is a time in RFC 3339, UTC.

    `times` and `about` are as `encode` takes them.

    A new directory is for its owner only: fstab and the kernel's command line can hold
    passwords. The manifest is written last, so that a capture that was cut short is not a
    snapshot. Raises SnapshotError and OSError.
    """
    files = encode(answers, taken_at, times=times, about=about)
    directory.mkdir(mode=0o700, exist_ok=True)
    if any(directory.iterdir()):
        raise SnapshotError(f"{directory}: not empty")
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            file.write(content)


def read_snapshot(directory: Path) -> tuple[MapSource, str]:
    """Return the source that replays a snapshot, and the time it was taken.

    Raises SnapshotError for anything that is not a snapshot of this version. The directory may
    come from anybody: no symbolic link in it is followed, and nothing but files is opened.
    """
    try:
        manifest = _content(directory / MANIFEST, LARGEST_MANIFEST_BYTES)
        answers, taken_at = decode(manifest, lambda name: _answer(directory, name))
    except SnapshotError as error:
        raise SnapshotError(f"{directory}: {error}") from None
    return MapSource(answers), taken_at


def _answer(directory: Path, name: str) -> bytes:
    """Read an answer file, where `answers` is a directory and not a way out."""
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
