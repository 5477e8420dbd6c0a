"""Times as ctime(3) prints them, in dumpe2fs's text: "Fri Jan  2 03:04:05 2026"."""

from __future__ import annotations

import re

_TIME = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ 0-9][0-9]) "
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}) (?P<year>[0-9]{4})"
)
_DAYS_BEFORE = dict(
    zip(
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(),
        (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334),
        strict=True,
    )
)
_FIRST_YEAR = 1970


def parse_ctime(text: str) -> int | None:
    """Return seconds since 1970, taking the time for UTC; None for "n/a" and for any other text.

    A time is no reason to lose the whole superblock: some tool's or person's date says nothing,
    and everything else is as true as before.
    """
    match = _TIME.fullmatch(text)
    if match is None or match["month"] not in _DAYS_BEFORE or int(match["year"]) < _FIRST_YEAR:
        return None
    year, month = int(match["year"]), match["month"]
    days = 365 * (year - _FIRST_YEAR) + _leap_days(year) - _leap_days(_FIRST_YEAR)
    days += _DAYS_BEFORE[month] + int(match["day"]) - 1
    if month not in {"Jan", "Feb"} and _leap_days(year + 1) > _leap_days(year):
        days += 1
    return (
        days * 86400 + int(match["hour"]) * 3600 + int(match["minute"]) * 60 + int(match["second"])
    )


def _leap_days(year: int) -> int:
    """Return the leap days before a year of the Gregorian calendar."""
    before = year - 1
    return before // 4 - before // 100 + before // 400
