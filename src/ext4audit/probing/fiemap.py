"""The extents of a file by the ioctl FS_IOC_FIEMAP, without writing it back first."""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FS_IOC_FIEMAP = 0xC020660B
"""_IOWR('f', 11, struct fiemap) (include/uapi/linux/fs.h)."""
LAST, DELALLOC, UNWRITTEN = 0x1, 0x4, 0x800
"""fe_flags (include/uapi/linux/fiemap.h)."""
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_AT_ONCE = 512
_WHOLE_FILE = (1 << 64) - 1
MOST_EXTENTS = 1 << 20


class Extent(NamedTuple):
    """One extent: where it lies in the file and on the device, its length, and its flags.

    `is_delayed` has no place on the device yet: delayed allocation only reserves space.
    `is_unwritten` is allocated and reads as zeros until writeback has converted it.
    """

    logical_bytes: int
    physical_bytes: int
    length_bytes: int
    flags: int

    @property
    def is_delayed(self) -> bool:
        """Whether space is only reserved (FIEMAP_EXTENT_DELALLOC)."""
        return bool(self.flags & DELALLOC)

    @property
    def is_unwritten(self) -> bool:
        """Whether it is allocated and not initialized (FIEMAP_EXTENT_UNWRITTEN)."""
        return bool(self.flags & UNWRITTEN)


def extents(descriptor: int) -> tuple[Extent, ...]:
    """Return the extents of an open file; raises OSError."""
    return tuple(_walk(descriptor))


def _walk(descriptor: int) -> Iterator[Extent]:
    start = count = 0
    while count < MOST_EXTENTS:
        found = _fetch(descriptor, start)
        yield from found
        if not found or found[-1].flags & LAST:
            return
        count += len(found)
        start = found[-1].logical_bytes + found[-1].length_bytes


def _fetch(descriptor: int, start: int) -> list[Extent]:
    """Return the extents from a byte on, as many as one call returns; raises OSError."""
    buffer = bytearray(_HEAD.size + _AT_ONCE * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, start, _WHOLE_FILE - start, 0, 0, _AT_ONCE, 0)
    fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
    return parse(bytes(buffer))


def parse(raw: bytes) -> list[Extent]:
    """Return the extents in the answer of the kernel."""
    mapped = _HEAD.unpack_from(raw)[3]
    rows = (_EXTENT.unpack_from(raw, _HEAD.size + n * _EXTENT.size) for n in range(mapped))
    return [Extent(row[0], row[1], row[2], row[5]) for row in rows]


def length(found: Iterable[Extent]) -> int:
    """Return how many bytes some extents cover."""
    return sum(extent.length_bytes for extent in found)
