"""Open the captured evidence of one host in any form; read and replay our own snapshots.

The key of a host is the operator's name for it. It depends only on the path of that host, so
adding a host to a fleet or removing one does not change the identity of the others.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import local
from typing import IO, NamedTuple, TypeVar

from ext4audit import lazily
from ext4audit.evidence import CAPTURE_AGAIN, Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    ArchiveError,
    Ask,
    EvidenceError,
    ReadBytes,
    Source,
    describe,
    encode,
    read_most,
)
from ext4audit.sources.snapshot import (
    ANSWERS,
    LARGEST_ANSWER_BYTES,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    SnapshotError,
    decode,
)
from ext4audit.sources.timeouts import (
    BoundedCalls,
    Readable,
    answered_for,
    calls_of_run,
    is_of_the_kernel,
)

R = TypeVar("R")
STANDARD_INPUT = "-"
_open_file: Callable[[Readable, str], Captured] = lazily("sources.captured_files", "open_file")
_other_directory: Callable[[str, BoundedCalls], Captured] = lazily(
    "sources.captured_files", "open_directory"
)


class Captured(NamedTuple):
    """The evidence of one host, its kind and origin, and when it was taken (RFC 3339, UTC).

    `kind` is "snapshot", "sosreport", "insights" or "supportconfig". `label` is the path it was
    opened with, or the name of the host that an archive describes.
    """

    kind: str
    label: str
    taken_at: str
    source: Source

    @property
    def has_local_times(self) -> bool:
        """Return whether tools ran in the host's time zone; those of a snapshot run in UTC."""
        return self.kind != "snapshot"


def open_captured(path: str, *, in_fleet: bool = False) -> Captured:
    """Open the evidence of one host: a snapshot in any form, or another program's archive.

    "-" is standard input. With `in_fleet`, the path must be a file or a directory, because opening
    a FIFO blocks. Raises ArchiveError with a message that begins with the path.
    """
    label = "standard input" if path == STANDARD_INPUT else path
    if not path or "\0" in path:  # for pathlib, an empty path is the working directory
        raise ArchiveError(f"{label!r}: {'it holds a NUL' if path else 'the path is empty'}")
    try:
        if path == STANDARD_INPUT:
            return _open_file(_standard_input(), label)
        _calls().follow()
        return _open_path(path, in_fleet=in_fleet)
    except OSError as error:
        raise ArchiveError(error.strerror or str(error), label) from None
    except EvidenceError as error:
        raise ArchiveError(error.reason, label) from None


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise ArchiveError("is closed")
    return sys.stdin.buffer


class _ThreadCalls(local):
    """The helper that a thread uses outside of a run; one for each host would cost 1 ms each.

    A helper serves one caller only: it keeps one file open, and answers come in request order.
    """

    def __init__(self) -> None:
        self.calls = BoundedCalls()


_OWN = _ThreadCalls()


def _calls() -> BoundedCalls:
    """Return the calls of the current run; outside of a run, those of this thread."""
    return calls_of_run(_OWN.calls)


def _call(call: Callable[[], R]) -> R:
    """Make a call in the helper process; raises what the call raises, or TimeoutError."""
    return _calls()(call)


def _open_path(path: str, *, in_fleet: bool) -> Captured:
    """Open a file or directory, possibly on a dead server; reads from a FIFO have no time limit."""
    mode_of = partial(_mode, path, in_fleet=in_fleet)
    mode = mode_of() if is_of_the_kernel(path) else _call(mode_of)
    if stat.S_ISDIR(mode):
        return _open_directory(path)
    if stat.S_ISREG(mode) and not is_of_the_kernel(path):
        _call(partial(_open_in_helper, path))
        try:
            return _open_file(_HelperFile(), path)
        finally:
            _call(_close_in_helper)
    with Path(path).open("rb") as file:
        return _open_file(file, path)


class _HelperFile:
    """The file that is open in the helper process, because even closing it here could block."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes; raises OSError."""
        return _call(partial(_read_in_helper, count))


_files_in_helper: list[IO[bytes]] = []


def _open_in_helper(path: str) -> None:
    _files_in_helper.append(Path(path).open("rb"))  # noqa: SIM115 - closed by another call


def _read_in_helper(count: int) -> bytes:
    if not _files_in_helper:
        raise OSError(errno.ESTALE, "the process that reads files has ended")
    return _files_in_helper[-1].read(count)


def _close_in_helper() -> None:
    while _files_in_helper:
        _files_in_helper.pop().close()


def _mode(path: str, *, in_fleet: bool) -> int:
    """Return the mode of a file; raises ArchiveError if it must not be opened."""
    mode = Path(path).stat().st_mode
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        raise ArchiveError("a device; audit it as a TARGET, without --from")
    if in_fleet and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ArchiveError("neither a file nor a directory")
    return mode


def _open_directory(path: str) -> Captured:
    if _call(partial(os.path.lexists, encode(f"{path}/{MANIFEST}"))):
        source, taken_at = read_snapshot(Path(path), _calls())
        return Captured("snapshot", path, taken_at, source)
    return _other_directory(path, _calls())


BEGIN = "-----BEGIN EXT4AUDIT SNAPSHOT-----"
END = "-----END EXT4AUDIT SNAPSHOT-----"
_BETWEEN = re.compile(re.escape(BEGIN.encode()) + rb"([A-Za-z0-9+/=\s]*)" + re.escape(END.encode()))


class MapSource(Source):
    """A source that replays recorded answers, unknowns included.

    An ask for bytes within a longer recorded range is answered from that range: the shell
    collector reads all group descriptors at once, while a live source reads some of them.
    """

    def __init__(self, answers: Mapping[Ask, Answer]) -> None:
        self._answers = dict(answers)
        self._read: dict[tuple[str, int], list[ReadBytes]] = {}
        for ask in self._answers:
            if isinstance(ask, ReadBytes):
                self._read.setdefault((ask.path, ask.reading), []).append(ask)

    def answer(self, ask: Ask) -> Answer:
        """Return the recorded answer, or NOT_CAPTURED."""
        answer = self._answers.get(ask) or (self._part(ask) if isinstance(ask, ReadBytes) else None)
        return answer or Unknown(describe(ask), Why.NOT_CAPTURED, hint=CAPTURE_AGAIN)

    def _part(self, ask: ReadBytes) -> Known[bytes] | None:
        """Return the bytes as a slice of a longer answer for the same path and reading."""
        for whole in self._read.get((ask.path, ask.reading), ()):
            start = ask.offset_bytes - whole.offset_bytes
            inside = 0 <= start <= whole.length_bytes - ask.length_bytes
            answer = self._answers[whole]
            if inside and isinstance(answer, Known) and isinstance(answer.value, bytes):
                return Known(answer.value[start : start + ask.length_bytes], answer.origin)
        return None


def read_snapshot(directory: Path, calls: BoundedCalls | None = None) -> tuple[MapSource, str]:
    """Return a source that replays a snapshot directory, and the time the snapshot was taken.

    Raises SnapshotError for anything that is not a snapshot of this version. The directory is
    untrusted: symbolic links in it are not followed, and only regular files are opened. It may be
    on a dead server: `calls` limits the wait for each file, and reading stops at the first timeout.
    """
    bounded = BoundedCalls() if calls is None else calls

    def answer(name: str) -> bytes:
        return bounded(partial(_answer, directory, name))

    try:
        manifest = bounded(partial(_content, directory / MANIFEST, LARGEST_MANIFEST_BYTES))
        answers, taken_at = decode(manifest, answer)
    except (TimeoutError, SnapshotError) as error:
        raise SnapshotError(str(error), str(directory)) from None
    return MapSource(answers), taken_at


def _answer(directory: Path, name: str) -> bytes:
    """Read an answer file; raises SnapshotError if `answers` is not a directory, or is a link."""
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
            return read_most(file, limit_bytes)
    except OSError as error:
        raise SnapshotError(f"{path.name}: {error.strerror}") from None


def _status(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except OSError as error:
        raise SnapshotError(f"{path.name}: {error.strerror}") from None


def is_wrapped(text: bytes) -> bool:
    """Return whether a text contains the start marker of a snapshot."""
    return BEGIN.encode() in text


def unwrap(text: bytes) -> bytes:
    """Return the decoded content between the markers; raises SnapshotError.

    White space between the markers and everything outside them is ignored: a pty writes CR LF and
    may wrap lines, and a login shell prints text before and after.
    """
    if text.count(BEGIN.encode()) != 1:
        raise SnapshotError(f"{text.count(BEGIN.encode())} snapshots in one text")
    found = _BETWEEN.search(text)
    if found is None:
        raise SnapshotError("truncated, or mixed with other text, between its markers")
    try:
        return base64.b64decode(b"".join(found[1].split()), validate=True)
    except ValueError as error:
        raise SnapshotError(f"damaged base64: {error}") from None


EXTENSION = re.compile(
    r"(?<=.)\.(?:tar|tgz|tbz2?|txz|gz|xz|bz2|json|txt|snapshot)$", re.IGNORECASE | re.DOTALL
)
_NAMELESS = re.compile(r"/dev/(?:stdin|fd/.*)|/proc/[^/]+/fd/.*", re.DOTALL)
"""Paths of open file descriptors, whose numbers differ from run to run."""
OWN_FOLDERS = ("snapshot", "archive")
"""The names of the evidence folder in a directory of one host that also holds other files."""


def key_of(path: str) -> str | None:
    """Return the last part of a path without snapshot extensions, or None if it has no name.

    "hosts/db1.tar.gz" becomes "db1"; "db1.example.com" is kept. "db1/snapshot" becomes "db1",
    because each host may have a folder of that name. Standard input, "." and /dev/fd/63 have none.
    """
    folder, _, name = path.rstrip("/").rpartition("/")
    if name in OWN_FOLDERS:
        name = folder.rstrip("/").rpartition("/")[2]
    if path == STANDARD_INPUT or name in {"", ".", ".."} or _NAMELESS.fullmatch(path):
        return None
    while (shorter := EXTENSION.sub("", name)) != name:
        name = shorter
    return name


def is_snapshot(path: str) -> bool:
    """Return whether a path is a snapshot directory; raises ArchiveError."""
    return exists(path, f"/{MANIFEST}")


def exists(path: str, below: str = "") -> bool:
    """Return whether `path + below` exists, even as a dangling link; raises ArchiveError."""
    try:
        return answered_for(path, partial(os.path.lexists, encode(path + below)))
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: OSError) -> ArchiveError:
    """Return the error to raise for a path that cannot be examined."""
    return ArchiveError(error.strerror or str(error), path)
