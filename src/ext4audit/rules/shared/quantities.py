"""Sizes, shares and times as numbers and as text of findings."""

from __future__ import annotations

import re

from ext4audit.evidence import Evidence, Known, Unknown
from ext4audit.facts.host import Filesystem, Usage
from ext4audit.finding import Citation
from ext4audit.rules.shared.citations import stated

GIB = 1 << 30
UNITS = ("TiB", 1 << 40), ("GiB", GIB), ("MiB", 1 << 20)
BLOCKS_OF_32_BITS = 1 << 32
"""Blocks that a filesystem without the feature 64bit can have."""


def origin_of(evidence: Evidence[object]) -> str:
    """Return where something was read; empty where it was not."""
    return evidence.origin if isinstance(evidence, Known) else ""


def size(count_bytes: int) -> str:
    """Return a size as text: "1.5 TiB", "50 GiB", "12 MiB", "100 bytes"."""
    for unit, unit_bytes in UNITS:
        if abs(count_bytes) >= unit_bytes:
            return f"{count_bytes / unit_bytes:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count_bytes} bytes"


def percent(part: int, whole: int) -> str:
    """Return a share as text, rounded down: 100 % only where nothing is missing."""
    return f"{part * 1000 // whole / 10:g} %" if whole else "0 %"


def full_share(usage: Usage) -> float:
    """Return how full it is for users, from 0 to 1: as df(1) counts, without the reserve."""
    used = usage.size_blocks - usage.free_blocks
    reachable = used + usage.available_blocks
    return used / reachable if reachable > 0 else 1.0


def cite_space(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the space in use, if it is known."""
    if not isinstance(fs.usage, Known):
        return ()
    usage = fs.usage.value
    words = [
        f"{size(blocks * usage.block_bytes)} {name}"
        for blocks, name in (
            (usage.size_blocks, "in all"),
            (usage.free_blocks, "free"),
            (usage.available_blocks, "free for users"),
        )
    ]
    return (Citation("space", ", ".join(words), fs.usage.origin),)


IMAGES = frozenset({"image", "e2image"})
"""Kinds of audited image files: they lie on no device and end with their content."""


def device_bytes(fs: Filesystem) -> Evidence[int]:
    """Return the size of the device that the filesystem lies on."""
    if not isinstance(fs.stack, Known):
        return fs.stack
    if fs.stack.value.kind in IMAGES:
        return stated(fs, "size", lambda s: s.block_bytes and s.size_blocks * s.block_bytes)
    sectors = fs.stack.value.size_sectors
    return Known(sectors.value * 512, sectors.origin) if isinstance(sectors, Known) else sectors


def least_idle(device: int) -> int:
    """Return how many bytes of a device a filesystem may leave idle without a finding."""
    return max(GIB, device // 100)


def has_room_to_grow(fs: Filesystem) -> bool:
    """Whether the device is known to be larger than the filesystem, as CAP005 finds."""
    device, each = device_bytes(fs), block_bytes(fs)
    if not (isinstance(device, Known) and isinstance(each, Known)):
        return False
    if not isinstance(fs.superblock, Known):
        return False
    own = fs.superblock.value.size_blocks * each.value
    return device.value - own > least_idle(device.value)


def block_bytes(fs: Filesystem) -> Evidence[int]:
    """Return the size of a block; of statfs(2) where the superblock's is not known."""
    found = stated(fs, "block size", lambda superblock: superblock.block_bytes)
    if isinstance(found, Unknown) and isinstance(fs.usage, Known):
        return Known(fs.usage.value.block_bytes, fs.usage.origin)
    return found


_TIME = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[Tt ]"
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.[0-9]+)?[Zz]"
)
DAY_SECONDS = 86400
_DAYS_OF_ERA = 146097
_DAYS_TO_1970 = 719468
"""From 0000-03-01, where the count of the calendar below begins."""


def utc(seconds: int) -> str:
    """Return a time as RFC 3339 in UTC: 0 is "1970-01-01T00:00:00Z"."""
    days, rest = divmod(seconds, DAY_SECONDS)
    year, month, day = _date(days)
    hour, minute, second = rest // 3600, rest // 60 % 60, rest % 60
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}Z"


def seconds_since_1970(text: str) -> int | None:
    """Return the seconds of a time in UTC as RFC 3339 spells it; None for any other text."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    given = {name: int(digits) for name, digits in match.groupdict().items()}
    days = _days(given["year"], given["month"], given["day"])
    return days * DAY_SECONDS + given["hour"] * 3600 + given["minute"] * 60 + given["second"]


def _date(days: int) -> tuple[int, int, int]:
    """Return the Gregorian date of a day since 1970; a year is counted from March on."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, _DAYS_OF_ERA)
    leap = day_of_era // 1460 - day_of_era // 36524 + day_of_era // 146096
    year_of_era = (day_of_era - leap) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9  # noqa: PLR2004 - January is 10
    return era * 400 + year_of_era + (month <= 2), month, day  # noqa: PLR2004 - until February


def _days(year: int, month: int, day: int) -> int:
    """Return the day since 1970 of a Gregorian date."""
    from_march = (month + 9) % 12
    year -= from_march // 10
    day_of_year = (153 * from_march + 2) // 5 + day - 1
    era, year_of_era = divmod(year, 400)
    leap = year_of_era // 4 - year_of_era // 100
    return era * _DAYS_OF_ERA + year_of_era * 365 + leap + day_of_year - _DAYS_TO_1970
