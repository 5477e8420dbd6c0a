"""Parsers for the values of a plan: sizes, numbers, paths, mount options, members."""

from __future__ import annotations

import re
from fractions import Fraction
from posixpath import normpath

import click

from ext4audit.facts.devices import SECTOR_BYTES

_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*(?:([KMGTP])(iB?|B)?|B)?", re.IGNORECASE)
_POWERS = "KMGTP"
_CHOICES = {
    "data": ("journal", "ordered", "writeback"),
    "errors": ("continue", "remount-ro", "panic"),
}
"""The valid values of options that every kernel checks (fs/ext4/super.c, Linux 3.10 to 7.2).
A plan must not print a mount command that fails, for example with data=bogus."""
_OPERATIONS = frozenset({"remount", "bind", "rbind", "move"})
"""Operations of mount(8) that are given as options but do not mount a new filesystem."""
LARGEST_BYTES = 1 << 50
"""More than mke2fs 1.47 can create in memory or on a current disk; it fails at 16 PiB."""


def size_of(text: str) -> int:
    """Return the bytes of "512K", "1.5T", "2TB", "314376192"; raises ValueError otherwise.

    K, Ki and KiB are 1024 bytes, as for mke2fs and mdadm; KB is 1000 bytes, as on a disk's label.
    Fractions and decimal units are rounded down to a sector.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not a size (512K, 1.5T or a number of bytes; T is TiB, and TB is 10^12)"
        )
    base = 1000 if (match[3] or "").upper() == "B" else 1024
    power = _POWERS.index(match[2].upper()) + 1 if match[2] else 0
    size = Fraction(match[1]) * base**power
    size_bytes = int(size)
    if "." in match[1] or base == 1000:  # noqa: PLR2004 - the base of decimal units
        size_bytes -= size_bytes % SECTOR_BYTES
    if not 0 < size_bytes <= LARGEST_BYTES:
        raise ValueError(f"{text} is not between 1 byte and 1 PiB")
    return size_bytes


LEAST_AMOUNT_BYTES = 1 << 20


def capacity_of(text: str) -> int:
    """Return the bytes of a device or of memory; raises ValueError if the unit is missing."""
    size_bytes = size_of(text)
    if text.strip().isdecimal() and size_bytes < LEAST_AMOUNT_BYTES:
        raise ValueError(f"{text} is {size_bytes} bytes: {text.strip()}G?")
    return size_bytes


CHUNK_STEP_BYTES = 4096
"""Chunk sizes of md and LVM are multiples of this (md(4), lvcreate(8))."""


def chunk_of(text: str) -> int:
    """Return the bytes of a chunk; raises ValueError for a size that no array has.

    The message suggests 512K for 512KB, and for 512, which mdadm's command line accepts.
    """
    size_bytes = size_of(text)
    number = text.strip().rstrip("bB").rstrip()
    if number != text.strip() and number[-1:].upper() in _POWERS:
        raise ValueError(f"{text} is {size_bytes} bytes; chunks are binary: {number}")
    if size_bytes % CHUNK_STEP_BYTES:
        hint = f" ({text}K?)" if text.isdecimal() else ""
        raise ValueError(f"{text} is not a multiple of {CHUNK_STEP_BYTES} bytes{hint}")
    return size_bytes


def whole_number_of(value: object) -> int:
    """Return a whole number; raises ValueError for anything else, such as TOML's `true`."""
    if not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise ValueError(f"{value} is not a whole number")
    return int(str(value))


def count_of(value: object) -> int:
    """Return a non-negative number, such as a limit of the kernel; raises ValueError."""
    number = whole_number_of(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def path_of(text: str) -> str:
    """Return an absolute, printable path; raises ValueError for any other.

    The path is normalized as the kernel shows mount points: no "//", "." or trailing slash.
    """
    if not text.startswith("/") or not text.isprintable():
        raise ValueError(f"{text!r} is not an absolute path of printable characters")
    return normpath(f"/{text.lstrip('/')}")


def mount_options_of(text: str) -> tuple[str, ...]:
    """Split mount options at commas outside quotes; raises ValueError for invalid options."""
    if not text.isprintable() or " " in text:
        raise ValueError("mount options cannot contain blanks or control characters")
    parts = re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', text)
    for word in parts:
        name, _, value = word.partition("=")
        if name in _OPERATIONS:
            raise ValueError(f"{word}: not an option of a filesystem, but an operation of mount(8)")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{word}: the kernel refuses it ({', '.join(_CHOICES[name])})")
    return tuple(word for word in parts if word and word != "defaults")


LEAST_MEMBERS = {"raid0": 2, "raid1": 2, "raid10": 2, "raid5": 3, "raid6": 4}
MOST_MEMBERS = 1920
"""Maximum members of an array with version-1 metadata (md(4))."""


def check_members(level: str, members: int, option: str = "--members") -> None:
    """Raise UsageError for a number of members that md does not support for this level."""
    least = LEAST_MEMBERS.get(level, 3)
    if not least <= members <= MOST_MEMBERS:
        what = f"{level} takes {least} to {MOST_MEMBERS} members"
        raise click.UsageError(f"{option} {members}: {what}")
