"""`remembered`: an index of a table of facts, built once however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
KEPT = 4
"""Tables whose indexes are kept: of one host, those that a pass over it asks for in turn."""


def remembered(build: Callable[[T], R]) -> Callable[[T], R]:
    """Keep what a function of a frozen table returned for the last tables, by identity.

    Not by equality, as `functools.cache` does: the hash of a table is as slow as the index. The
    tables are kept with the answers, so that an identity stands for one table only.
    """
    kept: tuple[tuple[T, R], ...] = ()

    @wraps(build)
    def answer(table: T) -> R:
        nonlocal kept
        for known, found in kept:
            if known is table:
                return found
        found = build(table)
        kept = ((table, found), *kept[: KEPT - 1])
        return found

    return answer
