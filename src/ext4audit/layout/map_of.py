"""The map of one striping layer that is described, and not found on this machine."""

from __future__ import annotations

from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.layer import mirrored
from ext4audit.layout.levels import layer_of
from ext4audit.layout.stack_map import StackMap
from ext4audit.layout.way import as_map, bottom, through
from ext4audit.records import replace

FAR_AWAY_BYTES = 1 << 60
"""Members of a size that nobody told: more than any filesystem fills."""


def map_of(geometry: StripeGeometry, member_bytes: int | None = None) -> StackMap:
    """Return the map of a filesystem on one array of equal members.

    `member_bytes` is what the array uses of each member; a concatenation cannot do without it,
    and without it the far copies of a RAID10 name the right member and no real byte of it.
    ValueError for a level, a layout or numbers of which no array can be made.
    """
    count = len(geometry.members)
    if geometry.level == "linear" and member_bytes is None:
        raise ValueError("where the members of a concatenation end depends on their size")
    sizes = [FAR_AWAY_BYTES if member_bytes is None else member_bytes] * count
    layer = layer_of(geometry.level, geometry.chunk_bytes, geometry.layout, sizes)
    array = through(layer, [(bottom(slot, member_bytes), 0) for slot in range(count)], None)
    way = through(mirrored(1), [(array, geometry.offset_bytes)], None)
    return as_map(replace(way, geometry=geometry), geometry.members)
