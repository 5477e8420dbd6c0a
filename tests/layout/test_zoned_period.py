"""RAID0s of unequal members: predictions for their zones match the counts on the members."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.layout import LayoutAdvice, MetadataLayout, StripeGeometry
from ext4audit.facts.superblock import Sizes
from ext4audit.layout import superblock_copies
from ext4audit.layout.advice import layout_advice
from ext4audit.layout.bitmap_placement import measure, placement_of
from ext4audit.layout.group_search import WORTH_A_CHANGE, advise
from ext4audit.layout.groups import predict_table
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import MkfsOptions, mke2fs_sizes
from ext4audit.layout.zoned_period import ZonedPeriod
from ext4audit.layout.zones import ALTERNATE, ORIGINAL, attainable_evenness
from support.examples import examples

GIB = 1 << 30
CHUNK_BYTES = 512 << 10


def unequal(*sizes_gib: int, layout: int = ALTERNATE, **changes: Any) -> StripeGeometry:
    """Return a RAID0 of disks of these sizes."""
    names = tuple(f"disk{slot}" for slot in range(len(sizes_gib)))
    used_bytes = tuple(size * GIB for size in sizes_gib)
    plain = StripeGeometry("md0", "raid0", CHUNK_BYTES, 0, names, layout, (), used_bytes)
    return plain._replace(**changes)


def made_on(geometry: StripeGeometry, **options: Any) -> Sizes:
    """Return the filesystem that mke2fs makes on a whole array."""
    return mke2fs_sizes(sum(geometry.member_bytes) - geometry.offset_bytes, MkfsOptions(**options))


def measured(geometry: StripeGeometry, made: Sizes) -> MetadataLayout:
    """Count the metadata on the members, block by block."""
    return measure(predict_table(made), made, map_of(geometry))


def advice_on(geometry: StripeGeometry) -> LayoutAdvice:
    """Return the advice for mke2fs's defaults."""
    made = made_on(geometry)
    return layout_advice(measured(geometry, made), made)


UNEQUAL = [
    pytest.param(unequal(100, 100, 30, 30), id="two zones"),
    pytest.param(unequal(100, 100, 30, 30, layout=ORIGINAL), id="in the original order"),
    pytest.param(unequal(1000, 1000, 30, 30), id="most of it on two disks"),
    pytest.param(unequal(*[100] * 6, *[300] * 6), id="twelve disks"),
    pytest.param(unequal(50, 100, 200, 400, 400), id="four zones"),
]


@pytest.mark.parametrize("geometry", UNEQUAL)
def test_the_promise_is_kept_on_the_real_zones(geometry: StripeGeometry) -> None:
    """Computed for equal members, the evenness would be 1.00 instead of 0.53."""
    advice = advise(map_of(geometry), made_on(geometry))
    assert advice is not None
    options = {
        "group_option": advice.blocks_per_group_option,
        "flex_bg_groups": advice.flex_bg_groups,
    }
    real = measured(geometry, made_on(geometry, **options))
    assert advice.evenness == pytest.approx(real.evenness, abs=0.01)
    assert advice.evenness <= advice.attainable + WORTH_A_CHANGE
    assert real.bitmaps.achieved > 0.95


def test_bitmaps_in_proportion_to_the_sizes_are_even() -> None:
    """Larger members hold more of everything: no group size changes that, and none is advised."""
    geometry = unequal(100, 100, 30, 30)
    made = made_on(geometry, group_option=32744)
    advice = layout_advice(measured(geometry, made), made)
    assert advice.is_even
    assert advice.curable == "The bitmaps are spread in proportion to their sizes."
    assert (advice.recreate, advice.no_help) == (None, ())


def test_the_advice_for_unequal_members_states_what_is_possible() -> None:
    """For 100, 100, 30 and 30 GiB, 0.78 is the index of the sizes themselves."""
    advice = advice_on(unequal(100, 100, 30, 30))
    assert advice.curable == (
        "The bitmaps: -g 32760 -G 16 spreads them in proportion to their sizes, "
        "evenness 0.78 instead of 0.25."
    )


def test_nothing_is_promised_for_zones_over_arrays() -> None:
    """The geometry names the disks below the arrays, but not the array of each."""
    geometry = unequal(100, 30, components=(("disk0",), ("disk1", "disk2")))
    made = made_on(geometry)
    loads = measure(predict_table(made), made, map_of(unequal(65, 65)))
    advice = layout_advice(loads._replace(geometry=geometry), made)
    assert advice.advice is None
    assert advice.curable.startswith("No group size is advised")


@pytest.mark.parametrize(
    ("sizes", "taken_gib", "expected"),
    [
        pytest.param((100, 100, 30, 30), 260, 260**2 / (4 * 21800), id="all"),
        pytest.param((100, 100, 30, 30), 120, 1.0, id="the first zone alone"),
        pytest.param((100, 100, 30, 30), 160, 160**2 / (4 * 6800), id="a part of the second"),
        pytest.param((), 1, 1.0, id="equal members"),
    ],
)
def test_attainable_evenness_follows_from_the_space_on_each_member(
    sizes: tuple[int, ...], taken_gib: int, expected: float
) -> None:
    """Only the space that the filesystem uses is included."""
    geometry = unequal(*sizes)
    assert attainable_evenness(geometry, taken_gib * GIB) == pytest.approx(expected)


@st.composite
def arrays(draw: st.DrawFn) -> StripeGeometry:
    """Draw members of a few sizes, an order, and the filesystem's start."""
    sizes = draw(st.lists(st.sampled_from((20, 40, 60, 100)), min_size=2, max_size=8))
    offset_bytes = draw(st.sampled_from((0, 1 << 20, 33 << 20, 50 * GIB)))
    layout = draw(st.sampled_from((ORIGINAL, ALTERNATE)))
    return unequal(*sizes, layout=layout, offset_bytes=min(offset_bytes, sum(sizes) * GIB // 2))


@examples(60)
@given(arrays(), st.sampled_from((32768, 32760, 32744, 16384)), st.sampled_from((1, 4, 16)))
def test_the_closed_form_counts_the_bitmaps_on_the_members(
    geometry: StripeGeometry, option: int, flex_groups: int
) -> None:
    """Groups that begin with a backup, and extents at the end of a zone, are exceptions."""
    made = made_on(geometry, group_option=option, flex_bg_groups=flex_groups)
    closed = ZonedPeriod(geometry, made.block_bytes).spread(placement_of(made))
    real = measured(geometry, made)
    assert sum(closed.loads) == sum(real.bitmaps.loads) == 2 * made.groups
    moved = sum(abs(a - b) for a, b in zip(closed.loads, real.bitmaps.loads, strict=True))
    exceptions = len(set(geometry.member_bytes)) + superblock_copies(made)
    assert moved <= 2 * 2 * flex_groups * exceptions
    assert closed.attainable == pytest.approx(real.attainable, abs=0.01)
