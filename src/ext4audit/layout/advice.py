"""The mkfs parameters that spread the bitmaps evenly over a stripe, and the advice in sentences.

With the defaults of mke2fs, flex groups begin 2^19 blocks apart. That is a multiple of a power
of two of chunks, so with N disks only the odd part of N is reached. A group size that is a few
blocks smaller spreads the bitmaps; the right size depends on the array.

Sources: mke2fs(8), tune2fs(8), resize2fs(8) and mdadm(8) for what can be changed in place, and
runs of each tool on real arrays for the effects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ext4audit.facts import TIB
from ext4audit.facts.layout import (
    EVEN,
    MOST_STRIDE_BLOCKS,
    Growth,
    LayoutAdvice,
    MetadataLayout,
    MkfsAdvice,
    Spread,
    StripeGeometry,
)
from ext4audit.facts.superblock import Sizes
from ext4audit.layout.group_search import (
    advise,
    described,
    evenness,
    evenness_with_stride,
    period_of,
)
from ext4audit.layout.levels import map_of

MOST_NEW_MEMBERS = 3
AS_USUAL = 0.05
"""How much Jain's index of the bitmaps may differ from the closed form, which ignores backups of
the superblock."""
NO_STRIDE = "stride and stripe width, set by mkfs or tune2fs: with flex_bg they do not move bitmaps"
NO_STRIDE_AFTERWARDS = "stride and stripe width, set by tune2fs: they do not move bitmaps"
NO_LARGER_FLEX_GROUPS = (
    "a slightly larger flex_bg size: the bitmaps are still placed at the same period"
)
NO_HELP = (
    "tune2fs, e2fsck and resize2fs: they keep the blocks per group and do not move bitmaps",
    "another power-of-two chunk size: the bitmaps remain on the same share of the disks",
)
NO_BETTER = "No group size and no flex_bg size spreads the bitmaps better over this stripe."
NOT_COMPUTED = "No group size is advised: none is computed for such a stripe."
ONE_GROUP = "It has one block group, whose two bitmaps are all there is to spread."
MITIGATIONS = (
    "a larger journal, or one on a separate device: busy blocks are written in place less often",
    "noatime or lazytime: fewer writes of inodes",
    "memory for the bitmaps, 8 KiB per group: they are cached and not read again",
)


def layout_advice(layout: MetadataLayout, sizes: Sizes) -> LayoutAdvice:
    """Return the advice for an existing or planned filesystem on a stripe.

    Raises ValueError if nothing stripes.
    """
    geometry = layout.geometry
    if geometry is None:
        raise ValueError("this filesystem is not on a stripe")
    is_even = layout.bitmaps.achieved >= EVEN
    advice = advice_for(layout, sizes)
    grown = None if is_even else growth_for(layout, sizes)
    return LayoutAdvice(
        sentence=f"{effectively(layout.bitmaps)} this metadata.",
        is_even=is_even,
        curable=_curable(layout, geometry, advice),
        incurable=_incurable(layout, geometry, sizes),
        advice=advice,
        growth=grown,
        recreate=None
        if is_even or advice is None
        else _recreate(advice) + _by_stride(layout, geometry, sizes),
        in_place=None if grown is None else _in_place(geometry, grown),
        no_help=() if is_even else tuple(_no_help(layout, advice)),
        mitigations=() if is_even else MITIGATIONS,
    )


def advice_for(layout: MetadataLayout, sizes: Sizes) -> MkfsAdvice | None:
    """Return the mkfs options that would make an equal filesystem even; None if there are none."""
    if layout.geometry is None:
        return None
    try:
        return advice_on(layout.geometry, described(layout, sizes), layout.device_bytes)
    except ValueError:
        return None


@lru_cache(maxsize=64)  # a report needs the advice several times, and a search takes up to 0.1 s
def advice_on(
    geometry: StripeGeometry, sizes: Sizes, device_bytes: int | None = None
) -> MkfsAdvice | None:
    """Return the result of `advise` for a stripe, cached because a search is slow.

    Raises ValueError for a stripe that `map_of` refuses.
    """
    return advise(map_of(geometry), sizes, device_bytes)


def growth_for(layout: MetadataLayout, sizes: Sizes) -> Growth | None:
    """Return the larger array on which the filesystem would be even without a new mkfs.

    None too if its bitmaps are not where mke2fs puts them without -E packed_meta_blocks.
    """
    if layout.geometry is None:
        return None
    try:
        made = described(layout, sizes)
        if abs(evenness(map_of(layout.geometry), made) - layout.evenness) > AS_USUAL:
            return None
        return growth(layout.geometry, made)
    except ValueError:
        return None


def growth(geometry: StripeGeometry, sizes: Sizes) -> Growth | None:
    """Return the next number of members that makes the existing bitmaps even, if it is near.

    Only md's RAID0 keeps its level when it grows by a member (md(4), mdadm(8) --grow). A RAID0 of
    other arrays grows by an array, which is not computed, and one with members of different sizes
    cannot grow (drivers/md/raid5.c, raid45_takeover_raid0: "cannot takeover raid0 with more than
    one zone").
    """
    now = len(geometry.members)
    if geometry.level != "raid0" or geometry.components or geometry.is_zoned:
        return None
    for members in range(now + 1, now + MOST_NEW_MEMBERS + 1):
        wider = geometry._replace(members=tuple(str(slot) for slot in range(members)))
        try:
            even = evenness(map_of(wider), sizes)
        except ValueError:
            return None
        if even >= EVEN:
            return Growth(members, even)
    return None


def effectively(spread: Spread) -> str:
    """Return a subject and a verb for a sentence: "Effectively 3 of 12 disks serve"."""
    number = rounded(spread.effective_members)
    verb = "serves" if number == "1" else "serve"
    return f"Effectively {number} of {len(spread.loads)} disks {verb}"


def rounded(number: float) -> str:
    """Format a number with one decimal, or with none if that is zero."""
    return f"{number:.1f}".removesuffix(".0")


def _curable(layout: MetadataLayout, geometry: StripeGeometry, advice: MkfsAdvice | None) -> str:
    over_all = "in proportion to their sizes" if geometry.is_zoned else "over all disks"
    if layout.bitmaps.achieved >= EVEN:
        return f"The bitmaps are spread {over_all}."
    if advice is None:
        return _no_advice(layout, geometry)
    how = over_all if advice.evenness >= EVEN * advice.attainable else "over more disks"
    if layout.goes_beyond_stripe:
        return f"The bitmaps on {geometry.device}: {advice.options} spreads them {how} of it."
    return (
        f"The bitmaps: {advice.options} spreads them {how}, "
        f"evenness {advice.evenness:.2f} instead of {layout.evenness:.2f}."
    )


def _no_advice(layout: MetadataLayout, geometry: StripeGeometry) -> str:
    if layout.groups == 1:
        return ONE_GROUP
    try:
        period_of(map_of(geometry), layout.block_bytes)
    except ValueError:
        return NOT_COMPUTED
    return NO_BETTER


def _incurable(layout: MetadataLayout, geometry: StripeGeometry, sizes: Sizes) -> str:
    """Describe what no group size changes: the descriptor table, with a block for 64 groups."""
    if layout.descriptors.evenness >= EVEN:
        return (
            "The descriptor table is spread over all disks because the filesystem is large; "
            "meta_bg would concentrate it on a few."
        )
    chunk_groups = geometry.chunk_bytes // sizes.descriptor_bytes
    even_bytes = chunk_groups * layout.blocks_per_group * layout.block_bytes * len(layout.members)
    return (
        f"{effectively(layout.descriptors)} the descriptor table, and no -g moves it: it lies at "
        f"the start of the filesystem, and reaches all disks from {rounded(even_bytes / TIB)} TiB."
    )


def _recreate(advice: MkfsAdvice) -> str:
    return (
        f"Back up, recreate the filesystem with {advice.options}, restore; it gets a new "
        "UUID. Nothing smaller changes the groups."
    )


def _in_place(geometry: StripeGeometry, grown: Growth) -> str:
    return (
        f"Grow {geometry.device} from {len(geometry.members)} to {grown.members} members, as md "
        "can: every chunk moves, and the bitmaps with them. The whole array is rewritten, so back "
        "up first; then set the new stripe width with tune2fs -E, and grow the filesystem with "
        "resize2fs."
    )


def _no_help(layout: MetadataLayout, advice: MkfsAdvice | None) -> Iterator[str]:
    """Yield attempts that change nothing; with mkfs, a stride moves bitmaps without flex_bg."""
    yield NO_STRIDE if layout.flex_bg_groups > 1 else NO_STRIDE_AFTERWARDS
    if advice is None or advice.flex_bg_groups <= layout.flex_bg_groups:
        yield NO_LARGER_FLEX_GROUPS
    yield from NO_HELP


def _by_stride(layout: MetadataLayout, geometry: StripeGeometry, sizes: Sizes) -> str:
    """Return the alternative for groups without flex_bg packing, empty if it does not help."""
    chunk_blocks = geometry.chunk_bytes // layout.block_bytes
    if layout.flex_bg_groups > 1 or not 0 < chunk_blocks <= MOST_STRIDE_BLOCKS:
        return ""
    even = evenness_with_stride(map_of(geometry), described(layout, sizes), chunk_blocks)
    if even <= max(layout.evenness, EVEN):
        return ""
    return (
        f" Or keep the groups and set -E stride={chunk_blocks}: it moves bitmaps that are not "
        f"packed by flex_bg, evenness {even:.2f}, and leaves the inode tables where they are."
    )
