"""The members of a layout in rows: all of them, or the busiest where there are very many."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.facts.layout import MemberLoad
from ext4audit.records import dataclass

MOST_ROWS = 32
"""More members than this are folded: the picture of 60 disks is in the busiest of them."""
_BUSIEST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Members that have a row each, in slot order, and a sentence about the others."""

    shown: tuple[MemberLoad, ...]
    folded: str


def rows_of(members: Sequence[MemberLoad]) -> Rows:
    """Return a row for every member of up to 32, else for the 16 with the most touches."""
    if len(members) <= MOST_ROWS:
        return Rows(tuple(members), "")
    by_load = sorted(range(len(members)), key=lambda slot: (-members[slot].touches, slot))
    busiest = sorted(by_load[:_BUSIEST_ROWS])
    rest = [members[slot].bitmap_writes for slot in by_load[_BUSIEST_ROWS:]]
    least, most = min(rest), max(rest)
    each = f"{least} bitmaps each" if least == most else f"{least} to {most} bitmaps each"
    return Rows(tuple(members[slot] for slot in busiest), f"and {len(rest)} more with {each}")
