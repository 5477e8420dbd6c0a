"""How a "raid" segment of a device-mapper table splits its bytes: LVM's RAID volumes.

Sources: Documentation/admin-guide/device-mapper/dm-raid.rst; the types by drivers/md/dm-raid.c
(6.1), which uses md's layouts by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.facts.block import SECTOR_BYTES, DmSegment
from ext4audit.layout.levels import layer_of
from ext4audit.layout.may_stripe import LVM_STRIPES, STRIPING_LEVELS
from ext4audit.layout.numbers import number
from ext4audit.layout.split import Split, Stripes

_TYPES: dict[str, tuple[str, int | None]] = {
    "raid0": (LVM_STRIPES, None),
    "raid1": ("raid1", None),
    "raid10": ("raid10", None),
    "raid4": ("raid5", 4),  # dm-raid keeps RAID4's parity on the first member, md on the last
    "raid5_la": ("raid5", 0),
    "raid5_ra": ("raid5", 1),
    "raid5_ls": ("raid5", 2),
    "raid5_rs": ("raid5", 3),
    "raid5_n": ("raid5", 5),
    "raid6_zr": ("raid6", 8),
    "raid6_nr": ("raid6", 9),
    "raid6_nc": ("raid6", 10),
    "raid6_la_6": ("raid6", 16),
    "raid6_ra_6": ("raid6", 17),
    "raid6_ls_6": ("raid6", 18),
    "raid6_rs_6": ("raid6", 19),
    "raid6_n_6": ("raid6", 5),
}
_FLAGS = frozenset({"sync", "nosync"})
_COPIES = "raid10_copies"
_FAR_ONCE = 1 << 8
"""In md's layout of a RAID10: the bytes lie in one part of the members, beside their copies."""

_HARMLESS = frozenset(
    "region_size daemon_sleep min_recovery_rate max_recovery_rate max_write_behind "
    "write_mostly stripe_cache rebuild journal_dev journal_mode".split()
)
"""Parameters with a value that move no data. `data_offset` and `delta_disks` belong to a
reshape, `raid10_format` to layouts that LVM does not make."""


def split_raid(segment: DmSegment) -> Split:
    """Return how "raid TYPE #params chunk … #members (metadata data)…" splits.

    ValueError where a type or parameter is not known, or a member is missing.
    """
    kind, count, *rest = segment.arguments
    params, members = rest[: number(count)], rest[number(count) :]
    if kind not in _TYPES or not params or not members:
        raise ValueError(f"the raid volume {segment.arguments[:8]} is not known")
    level, layout = _TYPES[kind]
    chunk_bytes = number(params[0]) * SECTOR_BYTES
    copies = _copies(params[1:])
    if level == "raid10":
        layout = _FAR_ONCE | copies
    legs = _legs(members)
    # dm-raid gives every member the same share; no layout of these types depends on its size.
    sizes = [segment.length_sectors * SECTOR_BYTES] * len(legs)
    stripes = Stripes(level, chunk_bytes, layout) if level in STRIPING_LEVELS else None
    return Split(layer_of(level, chunk_bytes, layout, sizes), legs, stripes)


def _copies(params: Sequence[str]) -> int:
    """Return a RAID10's copies, two by default; ValueError for what may move data."""
    words = [word for word in params if word not in _FLAGS]
    odd = sorted(set(words[::2]) - _HARMLESS - {_COPIES})
    if odd or len(words) % 2:
        raise ValueError(f"the raid parameters {odd or words} may move data")
    return number(dict(zip(words[::2], words[1::2], strict=True)).get(_COPIES, "2"))


def _legs(members: Sequence[str]) -> tuple[tuple[str, int], ...]:
    devices = members[2::2]
    if len(members) - 1 != number(members[0]) * 2 or "-" in devices:
        raise ValueError(f"{members[0]} members, of which one may be missing: {members[1:33]}")
    return tuple((device, 0) for device in devices)
