"""Texts of files and names in directories."""

from __future__ import annotations

import errno
import os
import stat

from ext4audit.sources.opening import opened
from ext4audit.sources.text import decode, encode

# The largest text that is asked for is a mount table; 30,000 container mounts make 8 MiB.
LARGEST_FILE_BYTES = 8 << 20


def read_file(path: str) -> str:
    """Return the text of a regular file; raises OSError.

    The size that stat reports is not used: files of /proc and sysfs report 0.
    """
    with opened(path, stat.S_ISREG, "a regular file") as descriptor:
        raw = bytearray()
        while chunk := os.read(descriptor, 1 << 16):
            raw += chunk
            if len(raw) > LARGEST_FILE_BYTES:
                raise OSError(errno.EFBIG, f"larger than {LARGEST_FILE_BYTES} bytes")
    return decode(bytes(raw))


def list_directory(path: str) -> str:
    """Return the names in a directory, sorted and joined by NUL; raises OSError."""
    names = os.listdir(encode(path))  # noqa: PTH208 - pathlib decodes by the locale
    return "\0".join(decode(name) for name in sorted(names))
