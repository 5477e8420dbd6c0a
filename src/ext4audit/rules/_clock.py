"""Times in evidence: seconds since 1970 as words, and the audit's own time as seconds."""

from __future__ import annotations

import re

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
