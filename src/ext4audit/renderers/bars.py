"""Bars of text: a number against the largest of its kind, in eighths of a column."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Left blocks of the Unicode range Block Elements (U+2588 to U+258F), by eighths filled."""
_PARTS = 8


def bar(value: float, largest: float, columns: int, *, ascii_only: bool) -> str:
    """Return a bar of at most `columns` columns, filled in the ratio of `value` to `largest`.

    What is not zero shows at least its least mark: a member with one bitmap is not idle.
    With `ascii_only` whole columns of `#` stand for the blocks.
    """
    if value <= 0 or largest <= 0:
        return ""
    share = min(value / largest, 1.0)
    if ascii_only:
        return "#" * max(round(share * columns), 1)
    eighths = max(round(share * columns * _PARTS), 1)
    whole, rest = divmod(eighths, _PARTS)
    return _EIGHTHS[_PARTS] * whole + (_EIGHTHS[rest] if rest else "")
