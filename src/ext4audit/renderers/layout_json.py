"""`ext4audit layout --format json`: a shape of its own, built field by field."""

from __future__ import annotations

from typing import Any

from ext4audit.facts.counsel import Advice, Counsel
from ext4audit.facts.layout import MemberLoad, MetadataLayout, Spread, StripeGeometry
from ext4audit.facts.layout_page import LayoutPage
from ext4audit.renderers.json_v1_verdict import unknown_object
from ext4audit.renderers.original_bytes import with_original_bytes

SCHEMA_VERSION = "1.0"
_RATIO_DIGITS = 4


def render(page: LayoutPage, *, tool_version: str) -> str:
    """Return one JSON object, indented, with a newline at the end."""
    import json  # noqa: PLC0415 - the text format does without

    return json.dumps(with_original_bytes(_object(page, tool_version)), indent=2) + "\n"


def _object(page: LayoutPage, tool_version: str) -> dict[str, Any]:
    layout = page.layout
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "target": page.target,
        "uuid": page.superblock.uuid,
        "read_from": {"stack": page.stack, "groups": page.origin, "basis": layout.basis},
        "stripe": None if layout.geometry is None else _stripe(layout.geometry),
        "block_bytes": layout.block_bytes,
        "blocks_per_group": layout.blocks_per_group,
        "groups": layout.groups,
        "flex_bg_groups": layout.flex_bg_groups,
        "size_blocks": layout.size_blocks,
        "members": [_member(member) for member in layout.members],
        "spread": _spreads(layout),
        "doubts": [unknown_object(doubt) for doubt in layout.doubts],
        "counsel": None if page.counsel is None else _counsel(page.counsel),
    }


def _stripe(geometry: StripeGeometry) -> dict[str, Any]:
    return {
        "device": geometry.device,
        "level": geometry.level,
        "members": len(geometry.members),
        "chunk_bytes": geometry.chunk_bytes,
        "offset_bytes": geometry.offset_bytes,
        "md_layout": geometry.layout,
    }


def _member(member: MemberLoad) -> dict[str, Any]:
    return {
        "name": member.name,
        "block_bitmaps": member.block_bitmaps,
        "inode_bitmaps": member.inode_bitmaps,
        "bitmap_parity": member.bitmap_parity,
        "inode_tables": member.inode_tables,
        "descriptor_blocks": member.descriptor_blocks,
        "described_groups": member.described_groups,
        "touches": member.touches,
    }


def _spreads(layout: MetadataLayout) -> dict[str, Any]:
    """Return the five distributions that are told apart; -g cures the first two."""
    return {
        "bitmaps": _spread(layout.bitmaps),
        "bitmap_data": _spread(layout.bitmap_data),
        "inode_tables": _spread(layout.inode_tables),
        "descriptors": _spread(layout.descriptors),
        "touches": _spread(layout.touches),
    }


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "effective_members": round(spread.effective_members, _RATIO_DIGITS),
        "evenness": round(spread.evenness, _RATIO_DIGITS),
        "skew": round(spread.skew, _RATIO_DIGITS),
        "hottest_share": round(spread.hottest_share, _RATIO_DIGITS),
    }


def _counsel(counsel: Counsel) -> dict[str, Any]:
    return {
        "sentence": counsel.sentence,
        "is_even": counsel.is_even,
        "curable": counsel.curable,
        "incurable": counsel.incurable,
        "advice": None if counsel.advice is None else _advice(counsel.advice),
        "grow_to_members": None if counsel.growth is None else counsel.growth.members,
        "recreate": counsel.recreate,
        "in_place": counsel.in_place,
        "no_help": list(counsel.no_help),
        "mitigations": list(counsel.mitigations),
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "blocks_per_group_option": advice.blocks_per_group_option,
        "flex_bg_groups": advice.flex_bg_groups,
        "evenness": round(advice.evenness, _RATIO_DIGITS),
        "is_default": advice.is_default,
    }
