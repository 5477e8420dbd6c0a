"""Which blocks per group and flex_bg size spread the bitmaps evenly over a stripe.

With the defaults of mke2fs flex groups begin 2^19 blocks apart. That is a multiple of a power
of two of chunks, so that only the odd part of a number of disks is ever met. A group size that
is a few blocks smaller breaks the rhythm; which one does depends on the array.
"""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.facts.counsel import Advice, Growth
from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.map_of import map_of
from ext4audit.layout.march import March, Track, march_of
from ext4audit.layout.mkfs_parameters import (
    BITS_PER_BYTE,
    GROUP_STEP,
    MOST_CLUSTERS_PER_GROUP,
    MkfsOptions,
    parameters,
)
from ext4audit.layout.stack_map import StackMap
from ext4audit.records import replace

EVEN = 0.95
"""Jain's index from which a layout counts as even. Between 0.55 and 0.95 there is next to
nothing in all geometries of N 2-32, chunk 64K-1M."""

EVEN_AS_ADVISED = 0.97
"""The same for options that nobody has chosen yet: there is always a choice."""

EVEN_IN_A_WINDOW = 0.7
"""The same for the first 2N flex groups: a layout that stays on one member for many flex
groups before it moves on is even as a whole, and a hotspot for a working set."""

MOST_NEW_MEMBERS = 3
LARGEST_FLEX_GROUPS = 256
"""Beyond this the inode tables of a flex group cover groups of data."""


def advise(stack_map: StackMap, superblock: Superblock) -> Advice | None:
    """Return the options nearest the defaults that make the bitmaps even, None if none do.

    `superblock` is of the filesystem as it is, or as `parameters` makes it. Its flex_bg size is
    kept where a group size exists for it, else halved until one does, at last doubled. The
    group size is the largest that is even: by the gcd test, in its worst stretch and on the
    filesystem's real size. The default is kept where it is even. ValueError where the
    superblock lacks sizes.
    """
    try:
        track = Track(stack_map, superblock.block_bytes or 1)
    except ValueError:
        return None
    flex_groups = superblock.flex_bg_groups or 1
    default = _made(superblock, None, flex_groups)
    usual = _spread_if_even(track, _march(default), EVEN)
    if usual is not None:
        return Advice(_option(default), flex_groups, usual, is_default=True)
    found = (_largest_group(track, superblock, size) for size in _flex_sizes(flex_groups))
    return next((advice for advice in found if advice is not None), None)


def evenness(stack_map: StackMap, superblock: Superblock) -> float:
    """Return Jain's index of the bitmaps as the closed form lays them; 1.0 is even.

    Raises ValueError for a stack that is not one stripe of chunks of whole blocks.
    """
    return Track(stack_map, superblock.block_bytes or 1).spread(_march(superblock)).evenness


def growth(geometry: StripeGeometry, superblock: Superblock) -> Growth | None:
    """Return the next number of members that makes the present bitmaps even, if it is near.

    Only md's RAID0 can be grown by a member and stay what it is (md(4), mdadm(8) --grow).
    """
    now = len(geometry.members)
    if geometry.level != "raid0":
        return None
    for members in range(now + 1, now + MOST_NEW_MEMBERS + 1):
        wider = replace(geometry, members=tuple(str(slot) for slot in range(members)))
        try:
            even = evenness(map_of(wider), superblock)
        except ValueError:
            return None
        if even >= EVEN:
            return Growth(members, even)
    return None


def _largest_group(track: Track, superblock: Superblock, flex_groups: int) -> Advice | None:
    cluster_blocks = superblock.cluster_blocks or 1
    for option in _group_sizes(superblock.block_bytes or 1):
        group_blocks = option * cluster_blocks
        if not track.meets_all(group_blocks * flex_groups, flex_groups):
            continue
        march = march_of(superblock, group_blocks, flex_groups)
        even = _spread_if_even(track, march, EVEN_AS_ADVISED)
        if even is not None and _is_taken(superblock, option, flex_groups):
            return Advice(option, flex_groups, even, is_default=False)
    return None


def _flex_sizes(flex_groups: int) -> Iterator[int]:
    """Yield the present flex_bg size, smaller ones, then larger ones.

    Smaller ones step more finely. Larger ones cover several small chunks with one run.
    """
    yield from (flex_groups >> halvings for halvings in range(flex_groups.bit_length()))
    while 1 < flex_groups < LARGEST_FLEX_GROUPS:
        flex_groups *= 2
        yield flex_groups


def _group_sizes(block_bytes: int) -> Iterator[int]:
    """Count down from mke2fs's default; a group an eighth smaller is no longer near it."""
    largest = min(BITS_PER_BYTE * block_bytes, MOST_CLUSTERS_PER_GROUP)
    return iter(range(largest, largest * 7 // 8, -GROUP_STEP))


def _spread_if_even(track: Track, march: March, least: float) -> float | None:
    """Return Jain's index if it is `least` or more, and the first 2N flex groups are no hotspot."""
    window_groups = 2 * track.members * march.flex_groups
    if track.spread(march, window_groups).evenness < EVEN_IN_A_WINDOW:
        return None
    even = track.spread(march).evenness
    return even if even >= least else None


def _is_taken(superblock: Superblock, option: int, flex_groups: int) -> bool:
    """Whether mke2fs makes groups of this size, or smaller ones for the sake of the inodes."""
    try:
        return _option(_made(superblock, option, flex_groups)) == option
    except ValueError:
        return False


def _made(superblock: Superblock, option: int | None, flex_groups: int) -> Superblock:
    """Return what mke2fs makes of a filesystem like this one with other groups."""
    block_bytes, cluster_blocks = superblock.block_bytes or 1, superblock.cluster_blocks or 1
    clusters = frozenset({"bigalloc"}) if cluster_blocks > 1 else frozenset[str]()
    options = MkfsOptions(
        features=superblock.features | clusters,
        block_bytes=block_bytes,
        group_option=option,
        flex_bg_groups=flex_groups,
        bytes_per_inode=bytes_per_inode(superblock),
        inode_bytes=superblock.inode_bytes or MkfsOptions().inode_bytes,
        cluster_bytes=cluster_blocks * block_bytes,
    )
    return parameters(superblock.size_blocks * block_bytes, options)


def bytes_per_inode(superblock: Superblock) -> int | None:
    """Return the -i that gives a new filesystem about as many inodes, None if not known."""
    group_blocks, block_bytes = superblock.blocks_per_group, superblock.block_bytes
    if not group_blocks or not block_bytes or not superblock.inodes_per_group:
        return None
    return group_blocks * block_bytes // superblock.inodes_per_group


def _option(made: Superblock) -> int:
    return (made.blocks_per_group or 0) // (made.cluster_blocks or 1)


def _march(superblock: Superblock) -> March:
    if not superblock.blocks_per_group:
        raise ValueError("the blocks per group are not known")
    return march_of(superblock, superblock.blocks_per_group, superblock.flex_bg_groups or 1)
