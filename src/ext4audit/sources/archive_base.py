"""What every archive offers, whatever container it lies in."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Wanted: TypeAlias = Callable[[str], bool]


class ArchiveError(ValueError):
    """An archive that is damaged, not what it seems, or beyond the limits; says which and where."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one archive may cost: an archive comes from anybody, and is read in memory.

    `largest_stream_bytes` bounds what is decompressed, the members that nobody wants included.
    `largest_ratio` is how many bytes one compressed byte may become, beyond the first 8 MiB:
    42 KB of zip once became 4 PB.
    """

    most_entries: int
    largest_file_bytes: int = 64 << 20
    largest_kept_bytes: int = 256 << 20
    largest_stream_bytes: int = 512 << 20
    largest_ratio: int = 200


SNAPSHOT_LIMITS = Limits(most_entries=20_000)
# A sosreport of a large host holds 60,000 files of sysfs, and gigabytes of logs beside them.
FOREIGN_LIMITS = Limits(most_entries=200_000, largest_stream_bytes=16 << 30)


class Archive(Protocol):
    """Files by their paths: relative, "/" between the parts, no leading "./", no "..".

    A directory at the top that all members share is part of each path. Symbolic and hard links
    are followed inside the archive, and never out of it. Names are UTF-8, surrogateescape.
    """

    @property
    def label(self) -> str:
        """Name the archive for people: the path that it was opened by."""
        ...

    def names(self) -> Collection[str]:
        """Return the paths of all regular files, sorted; links are not among them."""
        ...

    def is_directory(self, name: str) -> bool:
        """Whether a path leads to a directory; "" is the top."""
        ...

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; raises ArchiveError where it is none."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content; raises ArchiveError."""
        ...


def everything(_name: str) -> bool:
    """Want all members."""
    return True
