"""A layout in words and numbers, for the formats that people read."""

from __future__ import annotations

from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.layout_page import LayoutPage
from ext4audit.renderers.words import binary_size, counted


def stripe_words(page: LayoutPage) -> str:
    """Return what the filesystem lies on: "raid0 of 12 members, 512 KiB chunk (as stated)"."""
    geometry = page.layout.geometry
    if geometry is None:
        return f"{counted(len(page.layout.members), 'member')}, no stripe"
    chunk = binary_size(geometry.chunk_bytes)
    start = geometry.offset_bytes
    begins = f", begins {binary_size(start)} into it" if start else ""
    members = counted(len(geometry.members), "member")
    return f"{geometry.level} of {members}, {chunk} chunk{begins} ({page.stack})"


def groups_words(layout: MetadataLayout) -> str:
    """Return the filesystem's own geometry in one line."""
    return (
        f"{counted(layout.groups, 'block group')} of {layout.blocks_per_group} blocks of "
        f"{layout.block_bytes} bytes, flex_bg size {layout.flex_bg_groups}"
    )


def basis_words(page: LayoutPage) -> str:
    """Say how the places are known, and from where."""
    if page.layout.basis == "descriptors":
        return f"read from: {page.origin}"
    return f"{page.layout.basis}: {page.origin}"


def spread_words(layout: MetadataLayout) -> str:
    """Return the figures behind the sentence: the bitmaps, and churn of small files."""
    bitmaps, touches = layout.bitmaps, layout.touches
    return (
        f"Bitmaps: N_eff {bitmaps.effective_members:.2f} of {len(bitmaps.loads)}, evenness "
        f"{bitmaps.evenness:.2f}, busiest {bitmaps.skew:.2f} times the mean. "
        f"Churn of small files: the busiest member gets {touches.hottest_share:.1%} of the "
        f"metadata writes, {1 / len(touches.loads):.1%} would be even."
    )
