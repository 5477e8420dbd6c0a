"""How one device of a stack splits its bytes over the devices below, whatever made it."""

from __future__ import annotations

from ext4audit.evidence import Undetermined, Unknown, Why
from ext4audit.layout.layer import Layer
from ext4audit.records import dataclass

WHAT = "the way of a byte to its member device"
MDSTAT = "see /proc/mdstat"
BY_HAND = "count by hand: dumpe2fs -g names the bitmaps' blocks"


@dataclass(frozen=True, slots=True)
class Stripes:
    """What a striping layer is called: md's level and layout number, and the chunk."""

    level: str
    chunk_bytes: int
    layout: int | None


@dataclass(frozen=True, slots=True)
class Split:
    """A layer and its legs: what each device below is called, and at which byte of it it starts.

    A device below is called by its name (md) or by its number, "8:0" (device mapper). `stripes`
    is None where nothing is striped.
    """

    layer: Layer
    legs: tuple[tuple[str, int], ...]
    stripes: Stripes | None = None


def untold(detail: str, hint: str = BY_HAND, why: Why = Why.UNSUPPORTED) -> Undetermined:
    """Make the exception for a way that cannot be told; a map of the stack is then a hole."""
    return Undetermined((Unknown(WHAT, why, detail, hint),))
