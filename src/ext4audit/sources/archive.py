"""Archives of evidence: directories and tar files, from anybody, read and never unpacked.

Nothing is written to disk. What is damaged, hostile or beyond the limits is an ArchiveError that
names the archive.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

from ext4audit.sources.archive_base import (
    FOREIGN_LIMITS,
    SNAPSHOT_LIMITS,
    Archive,
    ArchiveError,
    Limits,
    Wanted,
    everything,
)
from ext4audit.sources.archive_directory import DirectoryArchive
from ext4audit.sources.archive_stream import Stream
from ext4audit.sources.archive_tar import read_tar
from ext4audit.sources.archive_tree import MemoryArchive

__all__ = [
    "FOREIGN_LIMITS",
    "SNAPSHOT_LIMITS",
    "Archive",
    "ArchiveError",
    "DirectoryArchive",
    "Limits",
    "MemoryArchive",
    "open_archive",
]


def open_archive(
    path: str, *, limits: Limits = FOREIGN_LIMITS, wanted: Wanted = everything
) -> Archive:
    """Open a directory, or a tar file (plain, gzip, xz, bzip2); "-" is a tar on standard input.

    Of a tar file the `wanted` members are held in memory; the predicate gets their paths. The
    names of all are known. Raises ArchiveError.
    """
    if path != "-" and Path(path).is_dir():
        return DirectoryArchive(path, limits)
    try:
        if path == "-":
            return archive_of(sys.stdin.buffer, "standard input", limits=limits, wanted=wanted)
        with Path(path).open("rb") as file:
            return archive_of(file, path, limits=limits, wanted=wanted)
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror or error}") from None


def archive_of(
    file: IO[bytes], label: str, *, limits: Limits = FOREIGN_LIMITS, wanted: Wanted = everything
) -> MemoryArchive:
    """Read a tar from an open file or pipe; raises ArchiveError."""
    return archive_in(Stream(file, limits), label, limits=limits, wanted=wanted)


def archive_in(stream: Stream, label: str, *, limits: Limits, wanted: Wanted) -> MemoryArchive:
    """Read a tar from a stream of which nothing was taken yet; raises ArchiveError."""
    try:
        return read_tar(stream, label, limits, wanted)
    except ArchiveError as error:
        raise ArchiveError(f"{label}: {error}") from None
