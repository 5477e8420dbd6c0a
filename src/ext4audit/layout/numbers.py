"""Numbers in the arguments of a device-mapper table."""

from __future__ import annotations

import re

_NUMBER = re.compile("[0-9]{1,19}")  # int() refuses numbers of thousands of digits


def number(word: str) -> int:
    """Parse a decimal number of at most 64 bits; ValueError for anything else."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is not a number")
    return int(word)
