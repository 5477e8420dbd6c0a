"""The short texts of sysfs, and of the asks whose answers have the same form."""

from __future__ import annotations

import re

from ext4audit.facts.host import Usage
from ext4audit.facts.mount import DeviceNumber, ResolvedPath

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_FLAGS = {"0": False, "1": True}
_WRITE_CACHES = frozenset({"write back", "write through"})
_COUNTS = 6
_TYPES = frozenset({"file", "directory", "block", "other"})


def parse_integer(text: str) -> int:
    """Parse one decimal number of at most 64 bits; ValueError for anything else.

    Stricter than int(), which takes "1_0" and the digits of every script.
    """
    word = text.strip()
    if not _INTEGER.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is not a decimal number")
    return int(word)


def parse_flag(text: str) -> bool:
    """Parse a sysfs truth value: "1" or "0"."""
    word = text.strip()
    if word not in _FLAGS:
        raise ValueError(f"{word[:40]!r} is neither 0 nor 1")
    return _FLAGS[word]


def parse_device_number(text: str) -> DeviceNumber:
    """Parse "9:127", as sysfs `dev`, mountinfo and lsblk print a device number."""
    major, separator, minor = text.strip().partition(":")
    if not separator:
        raise ValueError(f"{text.strip()[:40]!r} is not a device number")
    number = DeviceNumber(parse_integer(major), parse_integer(minor))
    if number.major < 0 or number.minor < 0:
        raise ValueError(f"{text.strip()[:40]!r} is not a device number")
    return number


def parse_key_values(text: str) -> dict[str, str]:
    """Parse KEY=value lines (`uevent`, the udev database, the asks that answer so).

    The first of two lines with one key counts: the kernel's own lines come first, and a later one
    may be part of a name that a user chose.
    """
    values: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        key, separator, value = line.partition("=")
        if not separator or not key:
            raise ValueError(f"{line[:40]!r} is not KEY=value")
        values.setdefault(key, value)
    return values


def parse_write_cache(text: str) -> str:
    """Parse `queue/write_cache`: "write back" or "write through" (ABI sysfs-block)."""
    word = text.strip()
    if word not in _WRITE_CACHES:
        raise ValueError(f"{word[:40]!r} is not a write cache mode")
    return word


def parse_names(text: str) -> tuple[str, ...]:
    """Parse the names of a directory, separated by NUL; an empty text is an empty directory."""
    return tuple(name for name in text.split("\0") if name)


def parse_stat_filesystem(text: str) -> tuple[DeviceNumber, Usage]:
    """Return the filesystem's device number and its usage; ValueError for another text."""
    number, *counts = text.split() or [""]
    values = [parse_integer(count) for count in counts]
    if len(values) != _COUNTS or values[0] == 0 or min(values) < 0:
        raise ValueError(f"{text[:80]!r} is not the answer of statvfs")
    return parse_device_number(number), Usage(*values)


def parse_resolved_path(text: str) -> ResolvedPath:
    """Parse a resolved path; ValueError where a key is missing or has another value."""
    values = parse_key_values(text)
    missing = {"mount_id", "device_number", "type"} - values.keys()
    if missing:
        raise ValueError(f"the answer lacks {', '.join(sorted(missing))}")
    if values["type"] not in _TYPES:
        raise ValueError(f"{values['type'][:40]!r} is no type of a path")
    represents = values.get("represents")
    return ResolvedPath(
        mount_id=parse_integer(values["mount_id"]),
        device_number=parse_device_number(values["device_number"]),
        type=values["type"],
        represents=parse_device_number(represents) if represents else None,
    )
