"""Count the groups whose inode tables lazy initialization has yet to zero.

It takes the groups in order, so that a few descriptors tell how far it has come. What an online
resize adds behind is zeroed by then: the count is what is owed at the end of the filesystem.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.descriptors import (
    descriptor_blocks,
    descriptor_bytes,
    descriptor_extents,
    descriptors_per_block,
)
from ext4audit.parsers.group_descriptors import count_unzeroed
from ext4audit.sources.ask import ReadBytes, Source

WHAT = "groups to be initialized"
CHECKSUMMED = frozenset({"uninit_bg", "metadata_csum"})
"""Without them no descriptor says what is zeroed, and mke2fs zeroes all."""
_READ_AT_ONCE_BYTES = 64 << 10
_FEW_EXTENTS = 4


def read_unzeroed_groups(
    source: Source, path: str, superblock: Evidence[Superblock]
) -> Evidence[int]:
    """Return the count for the device at `path`, from which `superblock` was read."""
    if isinstance(superblock, Unknown):
        return superblock
    known = superblock.value
    if CHECKSUMMED.isdisjoint(known.features):
        return Known(0, superblock.origin)
    if known.groups is None:
        return Unknown(WHAT, Why.DENIED, "the device itself was not read", "run as root")
    places = derive(WHAT, partial(_places, path), superblock)
    if isinstance(places, Unknown):
        return places
    return _owed(source, places.value, descriptor_bytes(known), f"group descriptors of {path}")


def _places(path: str, superblock: Superblock) -> tuple[ReadBytes, ...]:
    """Return the asks for all descriptors: as few as can be, or one a block where they are many."""
    extents = descriptor_extents(superblock)
    size_bytes = sum(length for _, length in extents)
    if size_bytes > _READ_AT_ONCE_BYTES or len(extents) > _FEW_EXTENTS:
        block_bytes, size = superblock.block_bytes or 0, descriptor_bytes(superblock)
        groups, each = superblock.groups or 0, descriptors_per_block(superblock)
        extents = tuple(
            (block * block_bytes, min(each, groups - index * each) * size)
            for index, block in enumerate(descriptor_blocks(superblock))
        )
    return tuple(ReadBytes(path, offset, length) for offset, length in extents)


def _owed(source: Source, places: Sequence[ReadBytes], size: int, origin: str) -> Evidence[int]:
    """Find the first place that has some by halving; all groups behind it are owed too."""
    low, high = 0, len(places) - 1
    owed = _count(source, places[high], size)
    if isinstance(owed, Unknown):
        return owed
    if owed.value == 0:
        return Known(0, origin)
    while low < high:
        middle = (low + high) // 2
        found = _count(source, places[middle], size)
        if isinstance(found, Unknown):
            return found
        if found.value:
            high, owed = middle, found
        else:
            low = middle + 1
    behind = sum(place.length_bytes for place in places[high + 1 :]) // size
    return Known(owed.value + behind, origin)


def _count(source: Source, place: ReadBytes, size: int) -> Evidence[int]:
    return derive(WHAT, count_unzeroed, source.fetch(place), Known(size, ""))
