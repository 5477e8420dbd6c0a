"""Read a tar as the program does, apart from what it looks for in it."""

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
    """Read all members, or the wanted ones, of a tar that is called "it"."""
    return archive_in(Stream(file, limits), "it", limits=limits, wanted=wanted)
