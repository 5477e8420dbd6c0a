"""Paths that name an open stream of this process: /dev/stdout, /dev/fd/3, and links to them."""

from __future__ import annotations

import os
from pathlib import Path

MOST_LINKS = 40
"""As many as the kernel follows in one path (path_resolution(7))."""


def own_stream(path: str) -> int | None:
    """Return the descriptor that a path names, None for what is no such path; raises OSError.

    What is behind it may be a file that others write to as well: `-o /dev/stdout >> log` must go
    on where the log ends, and not replace it.
    """
    own = Path(f"/proc/{os.getpid()}/fd")
    here = Path(path)
    for _ in range(MOST_LINKS):
        if here.name.isdecimal() and here.parent.resolve() == own:
            return int(here.name)
        if not here.is_symlink():
            return None
        here = here.parent / here.readlink()
    return None
