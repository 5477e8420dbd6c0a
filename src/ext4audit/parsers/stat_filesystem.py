"""What statvfs(3) says of a filesystem, as the ask `StatFilesystem` gives it."""

from __future__ import annotations

from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.usage import Usage
from ext4audit.parsers.sysfs import parse_device_number, parse_integer

_COUNTS = 6


def parse_stat_filesystem(text: str) -> tuple[DeviceNumber, Usage]:
    """Return the filesystem's device number and its usage; ValueError for another text."""
    number, *counts = text.split() or [""]
    values = [parse_integer(count) for count in counts]
    if len(values) != _COUNTS or values[0] == 0 or min(values) < 0:
        raise ValueError(f"{text[:80]!r} is not the answer of statvfs")
    return parse_device_number(number), Usage(*values)
