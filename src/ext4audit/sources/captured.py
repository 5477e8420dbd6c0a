"""Captured evidence of one host, in any form."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from ext4audit import lazily
from ext4audit.sources import ArchiveError, Readable, Source, encode
from ext4audit.sources.snapshot import (
    read_snapshot,
)
from ext4audit.sources.snapshot.format import (
    MANIFEST,
    SnapshotError,
)
from ext4audit.sources.waiting import BoundedCalls, is_of_the_kernel

STANDARD_INPUT = "-"
_open_file: Callable[[Readable, str], "Captured"] = lazily("sources.captured_files", "open_file")
_other_directory: Callable[[str, BoundedCalls], "Captured"] = lazily(
    "sources.captured_files", "open_directory"
)


class Captured(NamedTuple):
    """One host's evidence: its kind ("snapshot", "sosreport", …), where from, and when taken."""

    kind: str
    label: str
    taken_at: str
    source: Source


def open_captured(path: str, *, in_fleet: bool = False) -> Captured:
    """Open one host's evidence: a snapshot in any of its forms, or another program's archive.

    "-" is standard input. With `in_fleet` it must be a file or a directory: opening a FIFO blocks.
    Raises ArchiveError, which begins with the path.
    """
    label = "standard input" if path == STANDARD_INPUT else path
    try:
        if path == STANDARD_INPUT:
            return _open_file(_standard_input(), label)
        return _open_path(path, in_fleet=in_fleet)
    except OSError as error:
        raise ArchiveError(f"{label}: {error.strerror or error}") from None
    except (ArchiveError, SnapshotError) as error:
        message = str(error)
        raise ArchiveError(
            message if message.startswith(f"{label}: ") else f"{label}: {message}"
        ) from None


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise ArchiveError("is closed")
    return sys.stdin.buffer


_CALLS = BoundedCalls()
"""For all hosts of a fleet that this process reads: a helper each would cost 1 ms a host."""


def _open_path(path: str, *, in_fleet: bool) -> Captured:
    """Open a file or directory, which may lie on a dead server; what feeds a FIFO has its time."""
    mode_of = partial(_mode, path, in_fleet=in_fleet)
    mode = mode_of() if is_of_the_kernel(path) else _CALLS(mode_of)
    if stat.S_ISDIR(mode):
        return _open_directory(path)
    if stat.S_ISREG(mode) and not is_of_the_kernel(path):
        _CALLS(partial(_open_there, path))
        try:
            return _open_file(_There(), path)
        finally:
            _CALLS(_close_there)
    with Path(path).open("rb") as file:
        return _open_file(file, path)


class _There:
    """The file that is open in the helper process: to close it here could block, too."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes; raises OSError."""
        return _CALLS(partial(_read_there, count))


_there: list[IO[bytes]] = []


def _open_there(path: str) -> None:
    _there.append(Path(path).open("rb"))  # noqa: SIM115 - closed by _close_there, or at the end


def _read_there(count: int) -> bytes:
    if not _there:
        raise OSError(errno.ESTALE, "the process that reads files has ended")
    return _there[-1].read(count)


def _close_there() -> None:
    while _there:
        _there.pop().close()


def _mode(path: str, *, in_fleet: bool) -> int:
    """Return the mode of a file; raises ArchiveError for those that must not be opened."""
    mode = Path(path).stat().st_mode
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        raise ArchiveError("a device; audit it as a TARGET, without --from")
    if in_fleet and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ArchiveError("neither a file nor a directory")
    return mode


def _open_directory(path: str) -> Captured:
    if _CALLS(partial(os.path.lexists, encode(f"{path}/{MANIFEST}"))):
        source, taken_at = read_snapshot(Path(path), _CALLS)
        return Captured("snapshot", path, taken_at, source)
    return _other_directory(path, _CALLS)
