"""How device-mapper segments place bytes: linear, striped, crypt, snapshot-origin and raid.

Sources: Documentation/admin-guide/device-mapper/{linear,striped,dm-crypt,snapshot,dm-raid}.rst;
drivers/md/dm-raid.c (6.1) for the raid types, which are md's layouts by their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ext4audit.facts.devices import SECTOR_BYTES, DmSegment
from ext4audit.layout.byte_map import Split, Stripes, mirrored, striped
from ext4audit.layout.levels import layer_of
from ext4audit.layout.striping import LVM_STRIPES, STRIPING_LEVELS

_CRYPT_DEVICE = 3  # cipher, key, iv_offset, device, offset
_COMPONENT_FIELDS = 2  # device, offset
_STRIPED_HEAD = 2  # number of stripes, chunk in sectors
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
"""One far copy in md's RAID10 layout: the copies lie side by side in one part of the members."""
_HARMLESS = frozenset(
    "region_size daemon_sleep min_recovery_rate max_recovery_rate max_write_behind "
    "write_mostly stripe_cache rebuild journal_dev journal_mode".split()
)
"""Parameters with a value that move no data. `data_offset` and `delta_disks` belong to a
reshape, `raid10_format` to layouts that LVM does not make."""
_NUMBER = re.compile("[0-9]{1,19}")  # int() refuses numbers of thousands of digits


def split_segment(segment: DmSegment) -> Split:
    """Return how one line of a table splits; ValueError where that is not known."""
    split = _TARGETS.get(segment.target)
    if split is None:
        raise ValueError(f"where the target {segment.target!r} puts a byte is not known")
    return split(segment)


def _linear(segment: DmSegment) -> Split:
    return Split(mirrored(1), (_component(segment.arguments[:_COMPONENT_FIELDS]),))


def _crypt(segment: DmSegment) -> Split:
    fields = segment.arguments[_CRYPT_DEVICE : _CRYPT_DEVICE + _COMPONENT_FIELDS]
    return Split(mirrored(1), (_component(fields),))


def _origin(segment: DmSegment) -> Split:
    """Parse "snapshot-origin device": it copies old data elsewhere, and keeps its own in place."""
    return Split(mirrored(1), (_component((*segment.arguments[:1], "0")),))


def _striped(segment: DmSegment) -> Split:
    """Parse "striped N chunk device offset device offset …", as LVM makes it of --stripes."""
    count, chunk_sectors = (_number(field) for field in segment.arguments[:_STRIPED_HEAD])
    fields = segment.arguments[_STRIPED_HEAD:]
    if len(fields) != count * _COMPONENT_FIELDS:
        raise ValueError(f"{count} stripes, and {len(fields)} words about them")
    components = tuple(
        _component(fields[at : at + _COMPONENT_FIELDS])
        for at in range(0, len(fields), _COMPONENT_FIELDS)
    )
    chunk_bytes = chunk_sectors * SECTOR_BYTES
    stripes = Stripes(LVM_STRIPES, chunk_bytes, None)
    return Split(striped(count, chunk_bytes), components, stripes)


def _component(fields: Sequence[str]) -> tuple[str, int]:
    if len(fields) != _COMPONENT_FIELDS:
        raise ValueError(f"{fields} is no device with an offset")
    return fields[0], _number(fields[1]) * SECTOR_BYTES


def split_raid(segment: DmSegment) -> Split:
    """Return how "raid TYPE #params chunk … #members (metadata data)…" splits.

    ValueError where a type or parameter is unknown, or a member is missing.
    """
    kind, count, *rest = segment.arguments
    params, members = rest[: _number(count)], rest[_number(count) :]
    if kind not in _TYPES or not params or not members:
        raise ValueError(f"the raid volume {segment.arguments[:8]} is not known")
    level, layout = _TYPES[kind]
    chunk_bytes = _number(params[0]) * SECTOR_BYTES
    copies = _copies(params[1:])
    if level == "raid10":
        layout = _FAR_ONCE | copies
    components = _components(members)
    # dm-raid gives every member the same share; no layout of these types depends on its size.
    sizes = [segment.length_sectors * SECTOR_BYTES] * len(components)
    stripes = Stripes(level, chunk_bytes, layout) if level in STRIPING_LEVELS else None
    return Split(layer_of(level, chunk_bytes, layout, sizes), components, stripes)


def _copies(params: Sequence[str]) -> int:
    """Return a RAID10's copies, two by default; ValueError for what may move data."""
    pairs = [param for param in params if param not in _FLAGS]
    unknown = sorted(set(pairs[::2]) - _HARMLESS - {_COPIES})
    if unknown or len(pairs) % 2:
        raise ValueError(f"the raid parameters {unknown or pairs} may move data")
    return _number(dict(zip(pairs[::2], pairs[1::2], strict=True)).get(_COPIES, "2"))


def _components(members: Sequence[str]) -> tuple[tuple[str, int], ...]:
    devices = members[2::2]
    if len(members) - 1 != _number(members[0]) * 2 or "-" in devices:
        raise ValueError(f"{members[0]} members, of which one may be missing: {members[1:33]}")
    return tuple((device, 0) for device in devices)


def _number(argument: str) -> int:
    """Parse a decimal number of at most 64 bits; ValueError for anything else."""
    if not _NUMBER.fullmatch(argument):
        raise ValueError(f"{argument[:40]!r} is not a number")
    return int(argument)


_TARGETS: dict[str, Callable[[DmSegment], Split]] = {
    "linear": _linear,
    "crypt": _crypt,
    "snapshot-origin": _origin,
    "striped": _striped,
    "raid": split_raid,
}
