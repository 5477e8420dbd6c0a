"""How much written data can wait in memory for a filesystem, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, value_or
from ext4audit.facts.block import SECTOR_BYTES
from ext4audit.facts.host import Filesystem, Memory
from ext4audit.finding import Citation

MIB = 1 << 20


def backlog_bytes(fs: Filesystem, memory: Memory) -> int:
    """Return what can be dirty: the limit, or all of a filesystem that is smaller."""
    return min(memory.dirty_limit_bytes, _device_bytes(fs) or memory.dirty_limit_bytes)


def cite_size(fs: Filesystem, memory: Memory) -> Iterator[Citation]:
    """Cite the device's size where it, and not the limit, bounds the backlog."""
    size_bytes = _device_bytes(fs)
    if 0 < size_bytes < memory.dirty_limit_bytes and isinstance(fs.stack, Known):
        yield Citation("size", f"{size_bytes // MIB} MiB: no more can be dirty", fs.stack.origin)


def cite_memory(memory: Known[Memory]) -> Citation:
    """Cite the limit of dirty memory, and which setting makes it."""
    facts = memory.value
    limit = (
        f"vm.dirty_bytes = {facts.dirty_bytes}"
        if facts.dirty_bytes
        else f"vm.dirty_ratio = {facts.dirty_ratio_percent} % of "
        f"{facts.available_bytes // MIB} MiB available"
    )
    return Citation(
        "dirty limit",
        f"{facts.dirty_limit_bytes // MIB} MiB ({limit}; memory {facts.total_bytes // MIB} MiB)",
        memory.origin,
    )


def _device_bytes(fs: Filesystem) -> int:
    """Return the size of the filesystem's device, 0 where it is not known."""
    if not isinstance(fs.stack, Known):
        return 0
    return value_or(fs.stack.value.size_sectors, 0) * SECTOR_BYTES
