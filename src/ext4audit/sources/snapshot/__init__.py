"""Snapshots: a host's answers, recorded, written and replayed; as directory, tar or text."""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, overload

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    Ask,
    BytesAsk,
    ReadBytes,
    Source,
    TextAsk,
    describe,
    utc_now,
)
from ext4audit.sources.containers import SNAPSHOT_LIMITS, Archive, MemoryArchive
from ext4audit.sources.snapshot.decoding import decode
from ext4audit.sources.snapshot.format import (
    ANSWERS,
    LARGEST_ANSWER_BYTES,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    SnapshotError,
    encode,
)
from ext4audit.sources.waiting import BoundedCalls

TOP = "ext4audit-snapshot"
BEGIN = "-----BEGIN EXT4AUDIT SNAPSHOT-----"
END = "-----END EXT4AUDIT SNAPSHOT-----"
_COLUMNS_BYTES = 57
"""Bytes a line: 76 columns (RFC 2045)."""
_BETWEEN = re.compile(re.escape(BEGIN.encode()) + rb"([A-Za-z0-9+/=\s]*)" + re.escape(END.encode()))


class RecordingSource:
    """Passes asks through and records every answer, unknowns included."""

    def __init__(self, inner: Source, clock: Callable[[], str] = utc_now) -> None:
        self._inner = inner
        self._clock = clock
        self._answers: dict[Ask, Answer] = {}
        self._times: dict[Ask, str] = {}

    @property
    def answers(self) -> Mapping[Ask, Answer]:
        """The asks so far, with their answers."""
        return MappingProxyType(self._answers)

    @property
    def times(self) -> Mapping[Ask, str]:
        """When each answer was first given, in RFC 3339, UTC."""
        return MappingProxyType(self._times)

    @overload
    def fetch(self, ask: TextAsk) -> Evidence[str]: ...
    @overload
    def fetch(self, ask: BytesAsk) -> Evidence[bytes]: ...
    def fetch(self, ask: Ask) -> Answer:
        """Answer as the inner source answers."""
        answer: Answer = self._inner.fetch(ask)
        self._answers[ask] = answer
        if ask not in self._times:
            self._times[ask] = self._clock()
        return answer


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


def write_snapshot(
    directory: Path,
    answers: Mapping[Ask, Answer],
    *,
    taken_at: str,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
    masked: Sequence[str] = (),
) -> None:
    """Write a snapshot into a new or empty directory; `taken_at` is a time in RFC 3339, UTC.

    `times`, `about` and `masked` are as `encode` takes them.

    A new directory is for its owner only: fstab and the kernel's command line can hold
    passwords. The manifest is written last, so that a capture that was cut short is not a
    snapshot. Raises SnapshotError and OSError.
    """
    files = encode(answers, taken_at, times=times, about=about, masked=masked)
    directory.mkdir(mode=0o700, exist_ok=True)
    if any(directory.iterdir()):
        raise SnapshotError(f"{directory}: not empty")
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            file.write(content)


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


def write_snapshot_tar(
    file: IO[bytes],
    answers: Mapping[Ask, Answer],
    *,
    taken_at: str,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
    masked: Sequence[str] = (),
) -> None:
    """Write a snapshot as tar.gz; the same answers make the same bytes.

    `times`, `about` and `masked` are as `encode` takes them. All is below one directory. Raises
    SnapshotError for more than can be read back, and OSError.
    """
    import gzip  # noqa: PLC0415 - with tarfile 8 ms, for writing only
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


def is_part(name: str) -> bool:
    """Whether a member may be a part of a snapshot, whatever directory that lies in."""
    parts = name.split("/")
    return parts[-1] == MANIFEST or ANSWERS in parts[:-1]


def holds_snapshot(archive: Archive) -> bool:
    """Whether there is a manifest at the top, or in a directory at the top."""
    return bool(_manifests(archive))


def read_snapshot_tar(archive: MemoryArchive) -> tuple[dict[Ask, Answer], str]:
    """Return the answers of a snapshot in a tar, and the time they were taken.

    Raises SnapshotError, also for two snapshots in one tar and for anything that is no part of
    the snapshot. Raises ArchiveError for a dangling link.
    """
    names = archive.names()
    if len(names) > SNAPSHOT_LIMITS.most_entries:
        raise SnapshotError(f"holds more than {SNAPSHOT_LIMITS.most_entries} files")
    manifests = _manifests(archive)
    if len(manifests) != 1:
        raise SnapshotError(f"holds {len(manifests)} snapshots: {', '.join(manifests[:3])!r:.200}")
    top = manifests[0].removesuffix(MANIFEST)
    others = [name for name in names if not _belongs(name, top)] + list(archive.specials())
    if others:
        raise SnapshotError(f"also contains other files: {others[0]!r:.200}")
    manifest = archive.read(manifests[0])
    if len(manifest) > LARGEST_MANIFEST_BYTES:
        raise SnapshotError(f"{MANIFEST}: larger than {LARGEST_MANIFEST_BYTES} bytes")
    return decode(manifest, lambda name: archive.read(top + name))


def _belongs(name: str, top: str) -> bool:
    return name == top + MANIFEST or name.startswith(f"{top}{ANSWERS}/")


def _manifests(archive: Archive) -> list[str]:
    tops = ["", *(f"{name}/" for name in archive.children(""))]
    return [
        top + MANIFEST
        for top in tops
        if not top or archive.is_directory(top)
        if MANIFEST in archive.children(top)
    ]


def wrap(content: bytes) -> str:
    """Return the snapshot as lines of ASCII."""
    starts = range(0, len(content), _COLUMNS_BYTES)
    lines = [base64.b64encode(content[at : at + _COLUMNS_BYTES]).decode() for at in starts]
    return "\n".join([BEGIN, *lines, END, ""])


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
