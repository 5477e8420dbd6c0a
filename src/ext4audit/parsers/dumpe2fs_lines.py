"""The lines of dumpe2fs: `Key:   value`, and what the values are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from ext4audit.facts.superblock import RecordedError
from ext4audit.parsers.ctime import parse_ctime
from ext4audit.parsers.sysfs import parse_integer

_SIZE = re.compile(r"([0-9]{1,12})([kMG])")
_UNITS = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_WRITTEN = re.compile(r"([0-9]{1,20}) ([kMGTP])B")
_WRITTEN_SHIFTS = {"k": 0, "M": 10, "G": 20, "T": 30, "P": 40}


def _error_pattern(which: str) -> re.Pattern[str]:
    """Return the pattern of one recorded error; dumpe2fs puts values at column 26.

    The function's name is 32 bytes, printed raw. The longest match is the true one: a name that
    holds the next line itself ends before that line, and what follows are numbers.
    """
    at, function, line, inode, block = (
        f"{which} error {word}:".ljust(26)
        for word in ("time", "function", "line #", "inode #", "block #")
    )
    return re.compile(
        rf"^{at}(?P<at>[^\n]*)\n{function}(?P<function>[\s\S]{{0,32}})\n"
        rf"{line}(?P<line>[0-9]{{1,10}})\n"
        rf"(?:{inode}(?P<inode>[0-9]{{1,10}})\n)?(?:{block}(?P<block>[0-9]{{1,20}})\n)?",
        re.MULTILINE,
    )


_FIRST_ERROR = _error_pattern("First")
_LAST_ERROR = _error_pattern("Last")

Fields: TypeAlias = Mapping[str, str]
_Recorded: TypeAlias = RecordedError | None


def first_values(text: str) -> dict[str, str]:
    """Return the first value of each key."""
    return dict(reversed(_pairs(text)))


def last_values(text: str) -> dict[str, str]:
    """Return the last value of each key."""
    return dict(_pairs(text))


def number(fields: Fields, key: str, default: int | None = None) -> int:
    """Return the number of a key, or the default where the line is left out; ValueError."""
    if key in fields:
        return parse_integer(fields[key])
    if default is None:
        raise ValueError(f"the superblock has no {key!r}")
    return default


def positive(fields: Fields, key: str) -> int:
    """Return a number by which others are divided."""
    found = number(fields, key)
    if found <= 0:
        raise ValueError(f"{key!r} is {found}")
    return found


def number_or_none(fields: Fields, key: str) -> int | None:
    """Return the number with which a line begins, None without the line: "86400 (1 day)"."""
    return parse_integer(fields[key].partition(" ")[0]) if key in fields else None


def hexadecimal(fields: Fields, key: str) -> int | None:
    """Return a number such as "0x0801", None without the line."""
    return int(fields[key], 16) if key in fields else None


def words(text: str) -> tuple[str, ...]:
    """Return the words of a line, none for "(none)"."""
    return () if text.strip() == "(none)" else tuple(text.split())


def string(text: str) -> str | None:
    """Return a string of the superblock, None where dumpe2fs says that it is empty."""
    return None if text in {"", "<none>", "<not available>"} else text


def time(fields: Fields, key: str) -> int | None:
    """Return a time in seconds since 1970, None where there is none: zero is none too."""
    return parse_ctime(fields.get(key, "")) or None


def journal_bytes(fields: Fields) -> int | None:
    """Return the journal's size; "Total journal size" since 1.46, "Journal size" before."""
    text = fields.get("Total journal size", fields.get("Journal size"))
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no journal size")
    return int(match[1]) * _UNITS[match[2]]


def kbytes_written(fields: Fields) -> int | None:
    """Return what was written ("118 GB"), in units of 1024 bytes; None without the line."""
    match = _WRITTEN.fullmatch(fields.get("Lifetime writes", ""))
    return int(match[1]) << _WRITTEN_SHIFTS[match[2]] if match else None


def around_errors(text: str) -> tuple[str, tuple[_Recorded, _Recorded], str]:
    """Return what is before the recorded errors, the first and the last of them, and the rest."""
    first = _FIRST_ERROR.search(text)
    last = _LAST_ERROR.search(text, first.end() if first else 0)
    found = [match for match in (first, last) if match]
    if not found:
        return text, (None, None), text
    return text[: found[0].start()], (_error(first), _error(last)), text[found[-1].end() :]


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = (line.partition(":") for line in text.split("\n"))
    return [(key, value.strip()) for key, colon, value in parts if colon]


def _error(match: re.Match[str] | None) -> RecordedError | None:
    if match is None:
        return None
    return RecordedError(
        parse_ctime(match["at"]),
        match["function"],
        int(match["line"]),
        int(match["inode"] or 0),
        int(match["block"] or 0),
    )
