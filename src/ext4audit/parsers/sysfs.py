"""The small texts of sysfs, and of the asks that answer in the same manner."""

from __future__ import annotations

import re

from ext4audit.facts.mount import DeviceNumber

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_FLAGS = {"0": False, "1": True}
_WRITE_CACHES = frozenset({"write back", "write through"})


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

    The first of two lines with one key counts: what the kernel writes itself comes first, and
    a later line may have come out of a name that somebody chose.
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
