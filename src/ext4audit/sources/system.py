"""What the kernel says of itself: its name, its memory, and who asks."""

from __future__ import annotations

import os

from ext4audit.evidence import Why
from ext4audit.sources.unanswered import Unanswered

MEMINFO = "/proc/meminfo"
BYTES_PER_KIB = 1024


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
    total_bytes, available_bytes = _stated_memory() or _estimated_memory()
    return f"{total_bytes}\n{available_bytes}"


def _stated_memory() -> tuple[int, int] | None:
    """Return MemTotal and MemAvailable of proc_meminfo(5), where they are plausible.

    MemAvailable came with Linux 3.14, can read 0, and is the host's in some containers, beyond
    their total: psutil knows what to say then, and importing it costs 9 ms.
    """
    with open(MEMINFO, "rb") as file:  # noqa: PTH123 - pathlib costs a scan its start
        lines = (line.split() for line in file)
        kib = {words[0]: words[1] for words in lines if len(words) > 1 and words[1].isdigit()}
    total = int(kib.get(b"MemTotal:", b"0")) * BYTES_PER_KIB
    available = int(kib.get(b"MemAvailable:", b"0")) * BYTES_PER_KIB
    return (total, available) if 0 < available <= total else None


def _estimated_memory() -> tuple[int, int]:
    """Return what psutil makes of an incomplete /proc/meminfo; raises Unanswered, OSError."""
    try:
        import psutil  # noqa: PLC0415 - 9 ms, paid by hosts with an odd /proc/meminfo only

        memory = psutil.virtual_memory()
    except (ImportError, LookupError, ValueError, RuntimeError) as error:
        detail = f"psutil: {type(error).__name__}: {error}"
        raise Unanswered(Why.FAILED, detail, "mount /proc") from error
    return memory.total, memory.available
