"""Read a tar file as the program does, without looking for a certain kind of archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from ext4audit.sources.containers import ARCHIVE_LIMITS, Limits, MemoryArchive
from ext4audit.sources.containers.archives import archive_in
from ext4audit.sources.containers.tar import Stream


def read_tar(
    file: IO[bytes],
    *,
    limits: Limits = ARCHIVE_LIMITS,
    wanted: Callable[[str], bool] = lambda _name: True,
) -> MemoryArchive:
    """Read all or the wanted members of a tar file, which messages call "it"."""
    return archive_in(Stream(file, limits), "it", limits=limits, wanted=wanted)
