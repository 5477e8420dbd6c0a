"""The RAID levels of Linux, by md's words: which of them stripe, and the layer each one is."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.layout.layer import Layer, concatenated, mirrored
from ext4audit.layout.may_stripe import LVM_STRIPES
from ext4audit.layout.md_raid0 import raid0
from ext4audit.layout.md_raid10 import NEAR_2, raid10
from ext4audit.layout.md_raid456 import LEFT_SYMMETRIC, PARITY_CHUNKS, raid456


def layer_of(
    level: str, chunk_bytes: int, layout: int | None, member_bytes: Sequence[int]
) -> Layer:
    """Return the layer of an array; a layout of None is mdadm's default.

    `member_bytes` is what the array may use of each member. ValueError for a level, a layout or
    sizes of which no array can be made.
    """
    members = len(member_bytes)
    if not members:
        raise ValueError(f"{level} of no members")
    if level in {"raid0", LVM_STRIPES}:
        return raid0(member_bytes, chunk_bytes, layout)
    if level == "linear":
        return concatenated(_rounded(member_bytes, chunk_bytes))
    if level == "raid1":
        return mirrored(members)
    if level == "raid10":
        chosen = NEAR_2 if layout is None else layout
        return raid10(members, chunk_bytes, chosen, min(member_bytes))
    if level in PARITY_CHUNKS:
        chosen = LEFT_SYMMETRIC if layout is None else layout
        return raid456(level, members, chunk_bytes, chosen)
    raise ValueError(f"the level is {level!r}")


def _rounded(member_bytes: Sequence[int], chunk_bytes: int) -> list[int]:
    """Round to whole chunks where a concatenation has any (drivers/md/md-linear.c, 6.1)."""
    unit = max(chunk_bytes, 1)
    return [size // unit * unit for size in member_bytes]
