"""Bytes of block devices and image files, read through the page cache."""

from __future__ import annotations

import errno
import os
import stat

from ext4audit.evidence import Why
from ext4audit.sources.opening import opened
from ext4audit.sources.unanswered import Unanswered

# The descriptors of 64 TiB are 32 MiB. A damaged superblock can claim a thousand times that.
LARGEST_READ_BYTES = 64 << 20
_LARGEST_OFFSET = (1 << 63) - 1


def read_bytes(path: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return `length_bytes` bytes at `offset_bytes`; raises OSError, and Unanswered for fewer.

    Not by O_DIRECT: ext4 keeps the descriptors of a mounted filesystem in the page cache of its
    block device, and what is on the disk is older (49 of 800 descriptors were stale in a test).
    """
    if not 0 <= offset_bytes <= _LARGEST_OFFSET - LARGEST_READ_BYTES or length_bytes < 0:
        raise OSError(errno.EINVAL, "no such place on any device")
    if length_bytes > LARGEST_READ_BYTES:
        raise OSError(errno.EFBIG, f"{length_bytes} bytes; at most {LARGEST_READ_BYTES} are read")
    with opened(path, _is_wanted, "a block device or a regular file") as descriptor:
        found = os.pread(descriptor, length_bytes, offset_bytes)
    if len(found) < length_bytes:
        detail = f"{len(found)} of {length_bytes} bytes are there"
        raise Unanswered(Why.FAILED, detail)
    return found


def _is_wanted(mode: int) -> bool:
    return stat.S_ISBLK(mode) or stat.S_ISREG(mode)
