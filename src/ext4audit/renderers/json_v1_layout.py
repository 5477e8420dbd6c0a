"""JSON, version 1: where a filesystem's metadata lies on the members of its stack."""

from __future__ import annotations

from typing import Any

from ext4audit.facts.layout import MemberLoad, MetadataLayout, Spread, StripeGeometry
from ext4audit.renderers.json_v1_verdict import unknown_object

_RATIO_DIGITS = 4
"""Digits after the point of a ratio, so that two runs can be compared as text."""


def layout_object(layout: MetadataLayout) -> dict[str, Any]:
    """Return the metadata of a filesystem on its members, for `scan` and for `layout`."""
    return {
        "block_bytes": layout.block_bytes,
        "blocks_per_group": layout.blocks_per_group,
        "groups": layout.groups,
        "flex_bg_groups": layout.flex_bg_groups,
        "members": [_member(member) for member in layout.members],
        "skew": round(layout.skew, _RATIO_DIGITS),
        "effective_members": round(layout.effective_members, _RATIO_DIGITS),
        "evenness": round(layout.evenness, _RATIO_DIGITS),
        "cluster_blocks": layout.cluster_blocks,
        "size_blocks": layout.size_blocks,
        "basis": layout.basis,
        "stripe": None if layout.geometry is None else _stripe(layout.geometry),
        "bitmaps": _spread(layout.bitmaps),
        "bitmap_data": _spread(layout.bitmap_data),
        "inode_tables": _spread(layout.inode_tables),
        "descriptors": _spread(layout.descriptors),
        "touches": _spread(layout.touches),
        "doubts": [unknown_object(doubt) for doubt in layout.doubts],
    }


def _stripe(geometry: StripeGeometry) -> dict[str, Any]:
    return {
        "device": geometry.device,
        "level": geometry.level,
        "chunk_bytes": geometry.chunk_bytes,
        "offset_bytes": geometry.offset_bytes,
        "md_layout": geometry.layout,
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "effective_members": round(spread.effective_members, _RATIO_DIGITS),
        "evenness": round(spread.evenness, _RATIO_DIGITS),
        "skew": round(spread.skew, _RATIO_DIGITS),
        "hottest_share": round(spread.hottest_share, _RATIO_DIGITS),
    }


def _member(member: MemberLoad) -> dict[str, Any]:
    return {
        "name": member.name,
        "block_bitmaps": member.block_bitmaps,
        "inode_bitmaps": member.inode_bitmaps,
        # The contract's name; the number is of tables that start on the member, not of blocks.
        "inode_table_blocks": member.inode_tables,
        "descriptor_blocks": member.descriptor_blocks,
        "described_groups": member.described_groups,
        "bitmap_parity": member.bitmap_parity,
        "touch_parity": member.touch_parity,
        "bitmap_writes": member.bitmap_writes,
        "touches": member.touches,
    }
