"""How a segment of a device-mapper table splits its bytes.

Sources: Documentation/admin-guide/device-mapper/{linear,striped,dm-crypt,snapshot}.rst.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ext4audit.facts.block import SECTOR_BYTES, DmSegment
from ext4audit.layout.dm_raid import split_raid
from ext4audit.layout.layer import mirrored, striped
from ext4audit.layout.may_stripe import LVM_STRIPES
from ext4audit.layout.numbers import number
from ext4audit.layout.split import Split, Stripes

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
