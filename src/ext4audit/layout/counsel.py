"""What to tell the owner of a filesystem whose metadata is unevenly spread, or is not.

Sources: mke2fs(8), tune2fs(8), resize2fs(8) and mdadm(8) for what can be changed in place, and
runs of each on real arrays for what it changes.
"""

from __future__ import annotations

from ext4audit.facts.counsel import Advice, Counsel, Growth
from ext4audit.facts.layout import MetadataLayout, Spread, StripeGeometry
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.advice import EVEN, advise, growth
from ext4audit.layout.descriptors import descriptor_bytes
from ext4audit.layout.map_of import map_of
from ext4audit.records import replace

TIB = 1 << 40

NO_HELP = (
    "stride and stripe width, at mkfs or by tune2fs: with flex_bg they move no bitmap",
    "a flex_bg size that is only somewhat larger: the runs still begin in the same rhythm",
    "tune2fs, e2fsck and resize2fs: all keep the blocks per group, and no tool moves bitmaps",
    "another chunk that is a power of two: the same part of the disks is met",
)
MITIGATIONS = (
    "a journal that is larger or on a device of its own: hot blocks are written home less often",
    "noatime or lazytime: fewer writes of inodes",
    "memory for the bitmaps, 8 KiB a group: they are at least not read again",
)


def counsel(layout: MetadataLayout, superblock: Superblock) -> Counsel:
    """Return the advice for a filesystem that exists, or is planned, on a stripe.

    Raises ValueError where nothing stripes.
    """
    geometry = layout.geometry
    if geometry is None:
        raise ValueError("nothing stripes below this filesystem")
    is_even = layout.evenness >= EVEN
    advice = advice_for(layout, superblock)
    grown = None if is_even else growth_for(layout, superblock)
    return Counsel(
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


def effectively(spread: Spread) -> str:
    """Say how many members really serve, with the verb: "Effectively 3 of 12 disks serve"."""
    number = rounded(spread.effective_members)
    verb = "serves" if number == "1" else "serve"
    return f"Effectively {number} of {len(spread.loads)} disks {verb}"


def rounded(number: float) -> str:
    """Spell a number with one digit after the point, and without it where that is a zero."""
    return f"{number:.1f}".removesuffix(".0")


def advice_for(layout: MetadataLayout, superblock: Superblock) -> Advice | None:
    """Return the mkfs options that would make a filesystem like this one even on its stripe."""
    if layout.geometry is None:
        return None
    try:
        return advise(map_of(layout.geometry), described(layout, superblock))
    except ValueError:
        return None


def growth_for(layout: MetadataLayout, superblock: Superblock) -> Growth | None:
    """Return the larger array on which this filesystem would be even as it is."""
    if layout.geometry is None:
        return None
    try:
        return growth(layout.geometry, described(layout, superblock))
    except ValueError:
        return None


def described(layout: MetadataLayout, superblock: Superblock) -> Superblock:
    """Return the superblock with the sizes that the layout was measured with."""
    largest = 8 * layout.block_bytes * layout.cluster_blocks
    if layout.blocks_per_group > largest:
        raise ValueError(f"one block of bitmap does not describe {layout.blocks_per_group} blocks")
    return replace(
        superblock,
        size_blocks=layout.size_blocks,
        block_bytes=layout.block_bytes,
        first_block=superblock.first_block or 0,
        blocks_per_group=layout.blocks_per_group,
        flex_bg_groups=layout.flex_bg_groups,
        cluster_blocks=layout.cluster_blocks,
    )


def _curable(layout: MetadataLayout, advice: Advice | None) -> str:
    if layout.evenness >= EVEN:
        return "The bitmaps are spread over all disks."
    if advice is None:
        return "No group size near the default spreads the bitmaps over this stripe."
    return (
        f"The bitmaps: {_words(advice)} spreads them over all disks, "
        f"evenness {advice.evenness:.2f} instead of {layout.evenness:.2f}."
    )


def _incurable(layout: MetadataLayout, geometry: StripeGeometry, superblock: Superblock) -> str:
    """Say what no group size changes: the descriptor table, one block of it for 64 groups."""
    if layout.descriptors.evenness >= EVEN:
        return (
            "The descriptor table is spread over all disks because the filesystem is large; "
            "meta_bg would gather it on few."
        )
    chunk_groups = geometry.chunk_bytes // descriptor_bytes(superblock)
    even_bytes = chunk_groups * layout.blocks_per_group * layout.block_bytes * len(layout.members)
    return (
        f"{effectively(layout.descriptors)} the descriptor table, and no -g moves it: it lies at "
        f"the start of the filesystem, and reaches all disks from {rounded(even_bytes / TIB)} TiB."
    )


def _recreate(advice: Advice) -> str:
    return (
        f"Back up, recreate the filesystem with {_words(advice)}, restore. "
        "Nothing smaller changes the groups."
    )


def _in_place(geometry: StripeGeometry, grown: Growth) -> str:
    return (
        f"Grow {geometry.device} from {len(geometry.members)} to {grown.members} members: md "
        "moves every chunk, and the bitmaps with them. The whole array is rewritten, so back up "
        "first; then set the stripe width anew with tune2fs -E, and grow the filesystem with "
        "resize2fs."
    )


def _words(advice: Advice) -> str:
    return f"-g {advice.blocks_per_group_option} -G {advice.flex_bg_groups}"
