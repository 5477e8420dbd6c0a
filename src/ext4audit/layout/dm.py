"""How device-mapper segments place bytes: linear, striped, crypt and raid.

Sources: Documentation/admin-guide/device-mapper/dm-raid.rst; the types by drivers/md/dm-raid.c
(6.1), which uses md's layouts by their numbers.

Sources: Documentation/admin-guide/device-mapper/{linear,striped,dm-crypt,snapshot}.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ext4audit.facts.devices import SECTOR_BYTES, DmSegment
from ext4audit.layout.byte_map import Split, Stripes, mirrored, striped
from ext4audit.layout.levels import layer_of
from ext4audit.layout.striping import LVM_STRIPES, STRIPING_LEVELS

_NUMBER = re.compile("[0-9]{1,19}")  # int() refuses numbers of thousands of digits


def number(word: str) -> int:
    """Parse a decimal number of at most 64 bits; ValueError for anything else."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is not a number")
    return int(word)


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


_CRYPT_DEVICE = 3  # cipher, key, iv_offset, device, offset
_LEG_WORDS = 2  # device, offset
_STRIPED_HEAD = 2  # number of stripes, chunk in sectors


def split_segment(segment: DmSegment) -> Split:
    """Return how one line of a table splits; ValueError where that is not known."""
    split = _TARGETS.get(segment.target)
    if split is None:
        raise ValueError(f"where the target {segment.target!r} puts a byte is not known")
    return split(segment)


def _linear(segment: DmSegment) -> Split:
    return Split(mirrored(1), (_leg(segment.arguments[:_LEG_WORDS]),))


def _crypt(segment: DmSegment) -> Split:
    words = segment.arguments[_CRYPT_DEVICE : _CRYPT_DEVICE + _LEG_WORDS]
    return Split(mirrored(1), (_leg(words),))


def _origin(segment: DmSegment) -> Split:
    """Read "snapshot-origin device": it keeps old data elsewhere, and its own where it was."""
    return Split(mirrored(1), (_leg((*segment.arguments[:1], "0")),))


def _striped(segment: DmSegment) -> Split:
    """Read "striped N chunk device offset device offset …", as LVM makes it of --stripes."""
    count, chunk_sectors = (number(word) for word in segment.arguments[:_STRIPED_HEAD])
    words = segment.arguments[_STRIPED_HEAD:]
    if len(words) != count * _LEG_WORDS:
        raise ValueError(f"{count} stripes, and {len(words)} words about them")
    legs = tuple(_leg(words[at : at + _LEG_WORDS]) for at in range(0, len(words), _LEG_WORDS))
    chunk_bytes = chunk_sectors * SECTOR_BYTES
    stripes = Stripes(LVM_STRIPES, chunk_bytes, None)
    return Split(striped(count, chunk_bytes), legs, stripes)


def _leg(words: Sequence[str]) -> tuple[str, int]:
    if len(words) != _LEG_WORDS:
        raise ValueError(f"{words} is no device with an offset")
    return words[0], number(words[1]) * SECTOR_BYTES


_TARGETS: dict[str, Callable[[DmSegment], Split]] = {
    "linear": _linear,
    "crypt": _crypt,
    "snapshot-origin": _origin,
    "striped": _striped,
    "raid": split_raid,
}
