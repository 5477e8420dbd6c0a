"""The JSON of `layout`."""

from __future__ import annotations

import json

import pytest

from ext4audit.facts.layout import LayoutPage
from ext4audit.layout.advice import layout_advice
from ext4audit.renderers.layout import render_json
from support.builders import layout, sizes, superblock


@pytest.mark.parametrize(("members", "evenness"), [(4, 0.9999), (2, None)])
def test_no_evenness_for_a_part_of_a_volume(members: int, evenness: float | None) -> None:
    """The rest of the volume is on the disks of another array, and so are its groups."""
    found = layout((9594, 0, 9594, 0))
    assert found.geometry is not None
    stripe = found.geometry._replace(members=found.geometry.members[:members])
    part = found._replace(geometry=stripe)
    advice = layout_advice(part, sizes())
    page = LayoutPage("/dev/vg/data", None, 0, superblock(), part, advice, "", "")
    given = json.loads(render_json(page, tool_version="0"))["counsel"]["advice"]
    assert given["evenness"] == pytest.approx(evenness, abs=0.001)
    assert given["blocks_per_group_option"] < 32768
