"""Open a path for reading only after its type is known."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ext4audit.sources.text import encode


@contextmanager
def located(path: str) -> Iterator[int]:
    """Give an O_PATH descriptor of what `path` leads to: it is found, and not opened."""
    descriptor = os.open(encode(path), os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened(path: str, is_wanted: Callable[[int], bool], wanted: str) -> Iterator[int]:
    """Give a descriptor for reading, if `is_wanted` holds for the file's mode.

    Looking before opening matters: opening a tape rewinds it, and opening a watchdog arms it. The
    check and the open are about the same inode, because the second goes through the first one's
    descriptor.
    """
    with located(path) as found:
        mode = os.fstat(found).st_mode
        if not is_wanted(mode):
            raise OSError(errno.EINVAL, f"{_kind(mode)}, not {wanted}")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(f"/proc/self/fd/{found}", flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    """Name a file type for people."""
    names = {
        stat.S_IFREG: "a regular file",
        stat.S_IFDIR: "a directory",
        stat.S_IFBLK: "a block device",
        stat.S_IFCHR: "a character device",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    return names.get(stat.S_IFMT(mode), "a file of unknown type")
