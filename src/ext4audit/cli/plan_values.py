"""Values of a plan as people write them: sizes, and names that a command line can hold."""

from __future__ import annotations

import re
from posixpath import normpath

_SIZE = re.compile(r"([0-9]{1,19})\s*([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_CHOICES = {
    "data": ("journal", "ordered", "writeback"),
    "errors": ("continue", "remount-ro", "panic"),
}
"""Values of options that every kernel checks (fs/ext4/super.c, Linux 3.10 to 7.2). A plan with
data=bogus once got a mount line that fails."""
LARGEST_BYTES = 1 << 50
"""More than mke2fs 1.47 can make in memory or on a disk of today: it gives up at 16 PiB."""


def size_of(text: str) -> int:
    """Return bytes of "512K", "1200G", "314376192"; units are binary. ValueError otherwise."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size (512K, 1200G, or a number of bytes)")
    size_bytes = int(match[1]) * _UNITS[match[2].upper()]
    if not 0 < size_bytes <= LARGEST_BYTES:
        raise ValueError(f"{text} is not more than 0 and at most 1 PiB")
    return size_bytes


def count_of(value: object) -> int:
    """Return a number that is not negative, such as the kernel's limits; ValueError otherwise."""
    number = int(str(value))
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def path_of(text: str) -> str:
    """Return an absolute path that can be printed in a command; ValueError otherwise.

    As the kernel spells mount points: no "//", no "." and no slash at the end.
    """
    if not text.startswith("/") or not text.isprintable():
        raise ValueError(f"{text!r} is no absolute path of printable characters")
    return normpath(f"/{text.lstrip('/')}")


def words_of(text: str) -> tuple[str, ...]:
    """Split mount options at the commas outside quotes; ValueError for what fstab cannot hold."""
    if not text.isprintable() or " " in text:
        raise ValueError("mount options hold no blanks and no control characters")
    parts = re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', text)
    for word in parts:
        name, _, value = word.partition("=")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{word}: the kernel refuses it ({', '.join(_CHOICES[name])})")
    return tuple(word for word in parts if word and word != "defaults")
