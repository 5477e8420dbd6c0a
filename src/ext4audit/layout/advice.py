"""The mkfs parameters that spread the bitmaps evenly over a stripe, and the advice in sentences.

With the defaults of mke2fs flex groups begin 2^19 blocks apart. That is a multiple of a power
of two of chunks, so with N disks only the odd part of N is reached. A group size that is a few
blocks smaller spreads the bitmaps; which one does depends on the array.

Sources: mke2fs(8), tune2fs(8), resize2fs(8) and mdadm(8) for what can be changed in place, and
runs of each on real arrays for what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ext4audit.facts.layout import (
    Growth,
    LayoutAdvice,
    MetadataLayout,
    MkfsAdvice,
    Spread,
    StripeGeometry,
)
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.bitmap_placement import BitmapPlacement, StripePeriod, placement_of
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.groups import descriptor_bytes
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import (
    BITS_PER_BYTE,
    GROUP_STEP,
    MOST_CLUSTERS_PER_GROUP,
    TIB,
    MkfsOptions,
    parameters,
)

EVEN = 0.95
"""Jain's index from which a layout counts as even. Almost no geometry of N 2-32, chunk 64K-1M,
lies between 0.55 and 0.95."""
EVEN_AS_ADVISED = 0.97
"""The same for advised options, of which there are many to choose from."""
EVEN_IN_A_WINDOW = 0.7
"""The same for the first 2N flex groups, the window: a layout that stays on one member for many
flex groups before it moves on is even as a whole, but a hotspot for a working set."""
MOST_NEW_MEMBERS = 3
LARGEST_FLEX_GROUPS = 256
"""Beyond this the inode tables of a flex group fill whole groups."""
NO_HELP = (
    "stride and stripe width, set by mkfs or tune2fs: with flex_bg they do not move bitmaps",
    "a slightly larger flex_bg size: the bitmaps are still placed at the same period",
    "tune2fs, e2fsck and resize2fs: they keep the blocks per group and do not move bitmaps",
    "another power-of-two chunk size: the bitmaps remain on the same share of the disks",
)
MITIGATIONS = (
    "a larger journal, or one on a separate device: busy blocks are written in place less often",
    "noatime or lazytime: fewer writes of inodes",
    "memory for the bitmaps, 8 KiB per group: they are cached and not read again",
)


def layout_advice(layout: MetadataLayout, superblock: Superblock) -> LayoutAdvice:
    """Return the advice for a filesystem that exists, or is planned, on a stripe.

    Raises ValueError where nothing stripes.
    """
    geometry = layout.geometry
    if geometry is None:
        raise ValueError("this filesystem is not on a stripe")
    is_even = layout.evenness >= EVEN
    advice = advice_for(layout, superblock)
    grown = None if is_even else growth_for(layout, superblock)
    return LayoutAdvice(
        sentence=f"{effectively(layout.bitmaps)} this metadata.",
        is_even=is_even,
        curable=_curable(layout, advice),
        incurable=_incurable(layout, geometry, superblock),
        advice=advice,
        growth=grown,
        recreate=None if is_even or advice is None else _recreate(advice),
        in_place=None if grown is None else _in_place(geometry, grown),
        no_help=() if is_even else NO_HELP,
        mitigations=() if is_even else MITIGATIONS,
    )


def advice_for(layout: MetadataLayout, superblock: Superblock) -> MkfsAdvice | None:
    """Return the mkfs options that make a filesystem like this one even on its stripe."""
    if layout.geometry is None:
        return None
    try:
        return advise(map_of(layout.geometry), described(layout, superblock))
    except ValueError:
        return None


def growth_for(layout: MetadataLayout, superblock: Superblock) -> Growth | None:
    """Return the larger array on which this filesystem is even as it is."""
    if layout.geometry is None:
        return None
    try:
        return growth(layout.geometry, described(layout, superblock))
    except ValueError:
        return None


def advise(stack_map: StackMap, superblock: Superblock) -> MkfsAdvice | None:
    """Return the options nearest the defaults that make the bitmaps even, None if none do.

    `superblock` is of the filesystem as it is, or as `parameters` makes it. The default group
    size is kept where it is even. Otherwise the group size is the largest that is even: by the
    gcd test, in the first flex groups and on the filesystem's real size, and in both of these not
    less than the default. The flex_bg size is kept where a group size exists for it, else halved
    until one does, at last doubled. ValueError where the superblock lacks sizes.
    """
    try:
        period = StripePeriod(stack_map, superblock.block_bytes or 1)
    except ValueError:
        return None
    flex_groups = superblock.flex_bg_groups or 1
    default = _made(superblock, None, flex_groups)
    placement = _placement(default)
    window, whole = _evenness_in_window(period, placement), period.spread(placement).evenness
    if window >= EVEN_IN_A_WINDOW and whole >= EVEN:
        return MkfsAdvice(_option(default), flex_groups, whole, is_default=True)
    least = _Evenness(max(window, EVEN_IN_A_WINDOW), max(whole, EVEN_AS_ADVISED))
    found = (_largest_group(period, superblock, size, least) for size in _flex_sizes(flex_groups))
    return next((advice for advice in found if advice is not None), None)


def evenness(stack_map: StackMap, superblock: Superblock) -> float:
    """Return Jain's index of the bitmaps by the closed form; 1.0 is even.

    Raises ValueError for a stack that is not one stripe of chunks of whole blocks.
    """
    return (
        StripePeriod(stack_map, superblock.block_bytes or 1).spread(_placement(superblock)).evenness
    )


def growth(geometry: StripeGeometry, superblock: Superblock) -> Growth | None:
    """Return the next number of members that makes the present bitmaps even, if it is near.

    Only md's RAID0 keeps its level when it grows by a member (md(4), mdadm(8) --grow).
    """
    now = len(geometry.members)
    if geometry.level != "raid0":
        return None
    for members in range(now + 1, now + MOST_NEW_MEMBERS + 1):
        wider = geometry._replace(members=tuple(str(slot) for slot in range(members)))
        try:
            even = evenness(map_of(wider), superblock)
        except ValueError:
            return None
        if even >= EVEN:
            return Growth(members, even)
    return None


def described(layout: MetadataLayout, superblock: Superblock) -> Superblock:
    """Return the superblock with the sizes that the layout was measured with."""
    largest = 8 * layout.block_bytes * layout.cluster_blocks
    if layout.blocks_per_group > largest:
        raise ValueError(f"one block of bitmap does not describe {layout.blocks_per_group} blocks")
    return superblock._replace(
        size_blocks=layout.size_blocks,
        block_bytes=layout.block_bytes,
        first_block=superblock.first_block or 0,
        blocks_per_group=layout.blocks_per_group,
        flex_bg_groups=layout.flex_bg_groups,
        cluster_blocks=layout.cluster_blocks,
    )


def effectively(spread: Spread) -> str:
    """Return how many members really serve, with the verb: "Effectively 3 of 12 disks serve"."""
    number = rounded(spread.effective_members)
    verb = "serves" if number == "1" else "serve"
    return f"Effectively {number} of {len(spread.loads)} disks {verb}"


def rounded(number: float) -> str:
    """Format a number with one digit after the point, and without it where that is a zero."""
    return f"{number:.1f}".removesuffix(".0")


def _curable(layout: MetadataLayout, advice: MkfsAdvice | None) -> str:
    if layout.evenness >= EVEN:
        return "The bitmaps are spread over all disks."
    if advice is None:
        return "No group size near the default spreads the bitmaps over this stripe."
    return (
        f"The bitmaps: {_mkfs_options(advice)} spreads them over all disks, "
        f"evenness {advice.evenness:.2f} instead of {layout.evenness:.2f}."
    )


def _incurable(layout: MetadataLayout, geometry: StripeGeometry, superblock: Superblock) -> str:
    """Describe what no group size changes: the descriptor table, a block of it for 64 groups."""
    if layout.descriptors.evenness >= EVEN:
        return (
            "The descriptor table is spread over all disks because the filesystem is large; "
            "meta_bg would concentrate it on a few."
        )
    chunk_groups = geometry.chunk_bytes // descriptor_bytes(superblock)
    even_bytes = chunk_groups * layout.blocks_per_group * layout.block_bytes * len(layout.members)
    return (
        f"{effectively(layout.descriptors)} the descriptor table, and no -g moves it: it lies at "
        f"the start of the filesystem, and reaches all disks from {rounded(even_bytes / TIB)} TiB."
    )


def _recreate(advice: MkfsAdvice) -> str:
    return (
        f"Back up, recreate the filesystem with {_mkfs_options(advice)}, restore. "
        "Nothing smaller changes the groups."
    )


def _in_place(geometry: StripeGeometry, grown: Growth) -> str:
    return (
        f"Grow {geometry.device} from {len(geometry.members)} to {grown.members} members: md "
        "moves every chunk, and the bitmaps with them. The whole array is rewritten, so back up "
        "first; then set the new stripe width with tune2fs -E, and grow the filesystem with "
        "resize2fs."
    )


def _mkfs_options(advice: MkfsAdvice) -> str:
    return f"-g {advice.blocks_per_group_option} -G {advice.flex_bg_groups}"


class _Evenness(NamedTuple):
    """Jain's index of the bitmaps in the first 2N flex groups, and of all of them."""

    window: float
    whole: float


def _largest_group(
    period: StripePeriod, superblock: Superblock, flex_groups: int, least: _Evenness
) -> MkfsAdvice | None:
    cluster_blocks = superblock.cluster_blocks or 1
    for option in _group_sizes(superblock.block_bytes or 1):
        group_blocks = option * cluster_blocks
        if not period.covers_all_chunks(group_blocks * flex_groups, flex_groups):
            continue
        placement = _placement_if_kept(superblock, option, flex_groups)
        if placement is None or _evenness_in_window(period, placement) < least.window:
            continue
        whole = period.spread(placement).evenness
        if whole >= least.whole:
            return MkfsAdvice(option, flex_groups, whole, is_default=False)
    return None


def _flex_sizes(flex_groups: int) -> Iterator[int]:
    """Yield the present flex_bg size, smaller ones, then larger ones.

    Smaller ones have a finer stride. Larger ones cover several small chunks with one extent.
    """
    yield from (flex_groups >> halvings for halvings in range(flex_groups.bit_length()))
    while 1 < flex_groups < LARGEST_FLEX_GROUPS:
        flex_groups *= 2
        yield flex_groups


def _group_sizes(block_bytes: int) -> Iterator[int]:
    """Count down from mke2fs's default to seven eighths of it."""
    largest = min(BITS_PER_BYTE * block_bytes, MOST_CLUSTERS_PER_GROUP)
    return iter(range(largest, largest * 7 // 8, -GROUP_STEP))


def _evenness_in_window(period: StripePeriod, placement: BitmapPlacement) -> float:
    return period.spread(placement, 2 * period.members * placement.flex_groups).evenness


def _placement_if_kept(
    superblock: Superblock, option: int, flex_groups: int
) -> BitmapPlacement | None:
    """Return the placement with groups of this size, None if mke2fs lowers it for the inodes."""
    try:
        made = _made(superblock, option, flex_groups)
    except ValueError:
        return None
    return _placement(made) if _option(made) == option else None


def _made(superblock: Superblock, option: int | None, flex_groups: int) -> Superblock:
    """Return the superblock that mke2fs makes for a filesystem like this with other groups."""
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


def _placement(superblock: Superblock) -> BitmapPlacement:
    if not superblock.blocks_per_group:
        raise ValueError("the blocks per group are not known")
    return placement_of(superblock, superblock.blocks_per_group, superblock.flex_bg_groups or 1)
