"""What the kernel says of itself: its name, its memory, and who asks."""

from __future__ import annotations

import os

from ext4audit.evidence import Why
from ext4audit.sources.unanswered import Unanswered


def uname() -> str:
    """Return release, version, machine and node name, one a line.

    The node name stands last: it is the only one that an administrator can put a newline in.
    """
    name = os.uname()
    return f"{name.release}\n{name.version}\n{name.machine}\n{name.nodename}"


def effective_user() -> str:
    """Return the effective user id in decimal."""
    return str(os.geteuid())


def virtual_memory() -> str:
    """Return total and available memory in bytes, one a line; raises Unanswered, OSError."""
    try:
        import psutil  # noqa: PLC0415 - 18 ms, paid by scans of this host only

        memory = psutil.virtual_memory()
    except (ImportError, LookupError, ValueError, RuntimeError) as error:
        detail = f"psutil: {type(error).__name__}: {error}"
        raise Unanswered(Why.FAILED, detail, "mount /proc") from error
    return f"{memory.total}\n{memory.available}"
