"""Total and available memory of this host, by proc_meminfo(5)."""

from __future__ import annotations

from ext4audit.evidence import Why
from ext4audit.sources import Unanswered

MEMINFO = "/proc/meminfo"
BYTES_PER_KIB = 1024
_DIRTYABLE = (b"MemFree:", b"Active(file):", b"Inactive(file):")
"""What a kernel lets become dirty (mm/page-writeback.c: global_dirtyable_memory)."""


def virtual_memory() -> str:
    """Return total and available memory in bytes, one a line; raises Unanswered, OSError.

    MemAvailable exists since Linux 3.14, can be 0, and is the host's in some containers, beyond
    their total. What the kernel lets become dirty, at most the total, stands for it then.
    """
    with open(MEMINFO, "rb") as file:  # noqa: PTH123 - pathlib costs a scan its start
        lines = (line.split() for line in file)
        kib = {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
    total, available = kib.get(b"MemTotal:", 0), kib.get(b"MemAvailable:", 0)
    if not 0 < available <= total:
        available = min(total, sum(kib.get(name, 0) for name in _DIRTYABLE))
    if not available:
        raise Unanswered(Why.FAILED, f"no memory in {MEMINFO}", "mount /proc")
    return f"{total * BYTES_PER_KIB}\n{available * BYTES_PER_KIB}"
