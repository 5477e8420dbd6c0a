"""`ext4audit layout --format json`: the layout as in the JSON of `scan`, and the advice."""

from __future__ import annotations

from typing import Any

from ext4audit.facts.layout import LayoutAdvice, LayoutPage, MetadataLayout, MkfsAdvice
from ext4audit.renderers import json_text
from ext4audit.renderers.json_v1.objects import layout_object, rounded

SCHEMA_VERSION = "1.1"


def render(page: LayoutPage, *, tool_version: str) -> str:
    """Return one JSON object, indented, with a newline at the end."""
    return json_text(_object(page, tool_version))


def _object(page: LayoutPage, tool_version: str) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "target": page.target,
        "uuid": page.superblock.uuid,
        "read_from": {"stack": page.stack, "groups": page.origin},
        "layout": layout_object(page.layout),
        "modelled_churn_shares": [rounded(share) for share in _shares(page.layout)],
        "counsel": None if page.advice is None else _layout_advice(page.advice),
        "mkfs": page.mkfs,
    }


def _shares(layout: MetadataLayout) -> list[float]:
    """Return each member's share of the writes under churn of small files, in slot order."""
    total = sum(layout.churn.loads) or 1
    return [load / total for load in layout.churn.loads]


def _layout_advice(advice: LayoutAdvice) -> dict[str, Any]:
    return {
        "sentence": advice.sentence,
        "is_even": advice.is_even,
        "curable": advice.curable,
        "incurable": advice.incurable,
        "advice": None if advice.advice is None else _advice(advice.advice),
        "grow_to_members": None if advice.growth is None else advice.growth.members,
        "recreate": advice.recreate,
        "in_place": advice.in_place,
        "no_help": list(advice.no_help),
        "mitigations": list(advice.mitigations),
    }


def _advice(advice: MkfsAdvice) -> dict[str, Any]:
    return {
        "blocks_per_group_option": advice.blocks_per_group_option,
        "flex_bg_groups": advice.flex_bg_groups,
        "evenness": rounded(advice.evenness),
        "is_default": advice.is_default,
    }
