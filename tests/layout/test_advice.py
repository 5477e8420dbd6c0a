"""advise: the group size and flex_bg size that spread the bitmaps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import layout
from ext4audit.layout.advice import Advice, Shape, advise, evenness, predict, shape_of
from real_mke2fs import TWELVE_DISKS_BLOCKS, layout_of, needs_e2fsprogs

TWELVE = Shape(12, 128, 4096, 16, 1, TWELVE_DISKS_BLOCKS)
"""12 members, chunk 512 KiB, blocks of 4 KiB, flex groups of 16."""


@pytest.mark.parametrize("members", [2, 4, 8, 16, 64])
def test_a_power_of_two_of_members_wants_one_byte_of_bitmap_less(members: int) -> None:
    """512 KiB chunks: 32760 blocks per group, flex_bg size as it was."""
    assert _options(replace(TWELVE, members=members)) == (32760, 16)


@pytest.mark.parametrize("members", [6, 10, 12, 14, 20, 24])
def test_other_even_members_want_the_well_known_size(members: int) -> None:
    """512 KiB chunks: 32744, because 16 * 32744 blocks are a prime number of chunks."""
    assert _options(replace(TWELVE, members=members)) == (32744, 16)


@pytest.mark.parametrize("members", [3, 5, 7, 9, 11, 15, 63])
@pytest.mark.parametrize("chunk_blocks", [16, 32, 64, 128, 256])
def test_an_odd_number_of_members_keeps_the_defaults(members: int, chunk_blocks: int) -> None:
    """The defaults step by a power of two of chunks, which meets all of an odd number."""
    shape = replace(TWELVE, members=members, chunk_blocks=chunk_blocks)
    assert _options(shape) == (32768, 16)


@pytest.mark.parametrize(("chunk_blocks", "flex_bg_groups"), [(64, 8), (32, 4), (16, 2)])
def test_a_smaller_chunk_wants_smaller_flex_groups(chunk_blocks: int, flex_bg_groups: int) -> None:
    """No group size helps 12 members while the flex group exceeds an eighth of the chunk."""
    assert _options(replace(TWELVE, chunk_blocks=chunk_blocks)) == (32744, flex_bg_groups)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        pytest.param(replace(TWELVE, flex_bg_groups=64), (32744, 16), id="-G 64"),
        pytest.param(replace(TWELVE, cluster_blocks=16), (32744, 1), id="bigalloc 64 KiB"),
        pytest.param(replace(TWELVE, cluster_blocks=64), None, id="bigalloc 256 KiB"),
        pytest.param(
            Shape(12, 512, 1024, 16, 1, TWELVE_DISKS_BLOCKS), (8176, 16), id="blocks of 1 KiB"
        ),
        pytest.param(
            Shape(12, 8, 65536, 16, 1, TWELVE_DISKS_BLOCKS // 16), (65528, 16), id="64 KiB"
        ),
        pytest.param(replace(TWELVE, chunk_blocks=2048), (32752, 16), id="chunks of 8 MiB"),
    ],
)
def test_other_geometries(shape: Shape, options: tuple[int, int] | None) -> None:
    """With bigalloc -g counts clusters, 64 KiB blocks are capped, and some have no advice."""
    assert _options(shape) == options


def test_group_sizes_that_look_even_at_infinity_and_are_not_are_refused() -> None:
    """Chunks of 8 MiB: 32760 stays on one of 8 members for 32 GiB before it moves on."""
    shape = replace(TWELVE, members=8, chunk_blocks=2048)
    assert evenness(shape, 32760, 16) > 0.95
    assert _options(shape) == (32720, 16)


def test_the_default_layout_is_predicted_on_three_of_twelve_disks() -> None:
    """The closed form has 2 bitmaps for each of 9595 groups, on every fourth member."""
    assert predict(TWELVE, 32768, 16) == (6400, 0, 0, 0, 6400, 0, 0, 0, 6388, 0, 0, 0)
    assert round(evenness(TWELVE, 32768, 16), 2) == 0.25


def test_a_chunk_that_is_no_whole_number_of_blocks_has_no_shape() -> None:
    """Advice is given in blocks: a chunk smaller than a block has none."""
    assert shape_of(layout([1, 1], chunk_bytes=2048)) is None
    assert shape_of(layout([1, 1], chunk_bytes=6144)) is None


def test_a_group_that_a_bitmap_cannot_describe_has_no_shape() -> None:
    """A made-up superblock must not make the prediction run for hours."""
    assert shape_of(layout([1, 1], blocks_per_group=1 << 40)) is None
    assert shape_of(layout([1, 1], blocks_per_group=32769)) is None


def test_the_shape_of_a_layout_counts_chunks_in_blocks() -> None:
    """512 KiB are 128 blocks of 4 KiB."""
    assert shape_of(layout([1, 1], groups=100)) == Shape(2, 128, 4096, 16, 1, 3276800)


SHAPES = st.builds(
    Shape,
    members=st.integers(2, 64),
    chunk_blocks=st.sampled_from([1, 4, 8, 16, 32, 64, 127, 128, 130, 256, 512, 2048]),
    block_bytes=st.sampled_from([1024, 2048, 4096, 65536]),
    flex_bg_groups=st.sampled_from([1, 2, 8, 16, 32, 64]),
    cluster_blocks=st.sampled_from([1, 1, 4, 16]),
    size_blocks=st.integers(1 << 20, 1 << 31),
)


@settings(deadline=None, max_examples=150)
@given(SHAPES)
def test_advice_is_legal_and_even_block_by_block(shape: Shape) -> None:
    """What is advised is taken by mke2fs, and even when each single bitmap is placed."""
    advice = advise(shape)
    if advice is None:
        return
    assert advice.blocks_per_group_option % 8 == 0
    assert 256 <= advice.blocks_per_group_option <= min(8 * shape.block_bytes, 65528)
    assert 1 <= advice.flex_bg_groups <= shape.flex_bg_groups
    assert _evenness_block_by_block(shape, advice) >= 0.95


def _evenness_block_by_block(shape: Shape, advice: Advice) -> float:
    """Place the two bitmaps of every group one by one, without runs or chunks at once."""
    group_blocks = advice.blocks_per_group_option * shape.cluster_blocks
    groups = (shape.size_blocks + group_blocks - 1) // group_blocks
    loads = dict.fromkeys(range(shape.members), 0)
    for group in range(groups):
        first = group - group % advice.flex_bg_groups
        together = min(advice.flex_bg_groups, groups - first)
        for block in (group - first, group - first + together):
            byte_chunk = (first * group_blocks + block) // shape.chunk_blocks
            loads[byte_chunk % shape.members] += 1
    total = sum(loads.values())
    return total * total / (shape.members * sum(load * load for load in loads.values()))


@needs_e2fsprogs
@pytest.mark.parametrize("chunk_kib", [32, 64, 128, 256, 512, 1024])
@pytest.mark.parametrize("members", [2, 3, 4, 8, 10, 12, 16, 24])
def test_mke2fs_makes_an_even_layout_of_the_advice(members: int, chunk_kib: int) -> None:
    """On the real layout of 1.2 TiB the advice is even, for all usual arrays."""
    advice = advise(replace(TWELVE, members=members, chunk_blocks=chunk_kib // 4))
    assert advice is not None
    options = f"-g {advice.blocks_per_group_option} -G {advice.flex_bg_groups}"
    measured = layout_of(options, members, chunk_kib, TWELVE_DISKS_BLOCKS)
    assert measured.evenness >= 0.95
    assert measured.evenness == pytest.approx(advice.evenness, abs=0.02)


@needs_e2fsprogs
def test_mke2fs_makes_an_even_layout_of_the_advice_with_clusters() -> None:
    """With bigalloc, -g counts clusters."""
    advice = advise(replace(TWELVE, cluster_blocks=16))
    assert advice is not None
    options = f"-O bigalloc -C 65536 -g {advice.blocks_per_group_option} -G 1"
    measured = layout_of(options, 12, 512, TWELVE_DISKS_BLOCKS)
    assert measured.evenness >= 0.95
    assert measured.blocks_per_group == 32744 * 16


def _options(shape: Shape) -> tuple[int, int] | None:
    advice = advise(shape)
    return (advice.blocks_per_group_option, advice.flex_bg_groups) if advice else None
