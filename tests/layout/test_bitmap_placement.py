"""Period and placement: bitmaps on a stripe, counted without reading each group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.superblock import Sizes
from ext4audit.layout import descriptor_table_blocks
from ext4audit.layout.bitmap_placement import StripePeriod, descriptor_writes, measure, placement_of
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.groups import predict_table
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, mke2fs_sizes
from support.examples import examples
from support.images.mke2fs import TWELVE_DISKS_BLOCKS, striped_geometry

TWELVE = map_of(striped_geometry(12, 512))


@pytest.mark.parametrize(
    ("group_option", "bitmaps"),
    [
        (None, (6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0)),
        (32744, (1572, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1632, 1600, 1600)),
    ],
)
def test_the_placement_counts_the_bitmaps_of_the_groups(
    group_option: int | None, bitmaps: tuple[int, ...]
) -> None:
    """The counts for 9594 groups on 12 disks are exact."""
    block = mke2fs_sizes(TWELVE_DISKS_BLOCKS * 4096, MkfsOptions(group_option=group_option))
    placement = placement_of(block)
    assert StripePeriod(TWELVE, 4096).spread(placement).loads == bitmaps


GEOMETRIES = st.builds(
    striped_geometry,
    st.integers(4, 24),
    st.sampled_from([4, 16, 32, 128, 508, 512, 2048]),
    st.sampled_from(["raid0", "raid10", "raid4", "raid5", "raid6"]),
    offset_bytes=st.sampled_from([0, 4096, 32256, 1 << 20]),
)
FILESYSTEMS = st.builds(
    lambda option, flex, groups: mke2fs_sizes(
        groups * option * 4096, MkfsOptions(group_option=option, flex_bg_groups=flex)
    ),
    st.integers(0, 400).map(lambda n: 32768 - 8 * n),
    st.sampled_from([2, 4, 8, 16, 32]),
    st.integers(65, 40000),
)


@examples(60)
@given(GEOMETRIES, FILESYSTEMS)
def test_the_placement_agrees_with_counting_every_group(
    geometry: StripeGeometry, block: Sizes
) -> None:
    """Each member gets the same writes, for any level, chunk, offset and group size."""
    stack_map = map_of(geometry)
    placement = placement_of(block)
    by_placement = StripePeriod(stack_map, 4096).spread(placement).loads
    counted = measure(predict_table(block), block, stack_map).bitmaps.loads
    # A last flex group of one group keeps space between its two bitmaps.
    assert sum(abs(one - other) for one, other in zip(by_placement, counted, strict=True)) <= 6


@pytest.mark.parametrize(
    ("members", "chunk_kib", "group_blocks", "flex_groups", "covers_all_chunks"),
    [
        (12, 512, 32744, 16, True),
        (12, 256, 32744, 16, False),
        (12, 256, 32744, 8, True),
        (12, 512, 32768, 16, False),
        (3, 512, 32768, 16, True),
        (3, 512, 32760, 16, False),
        (12, 512, 32736, 16, False),
        (8, 16, 32768, 16, True),
    ],
)
def test_evenness_follows_from_the_greatest_common_divisor(
    members: int, chunk_kib: int, group_blocks: int, flex_groups: int, *, covers_all_chunks: bool
) -> None:
    """The layout is even in the long run if it divides the chunk or the run of bitmaps."""
    period = StripePeriod(map_of(striped_geometry(members, chunk_kib)), 4096)
    assert period.covers_all_chunks(group_blocks * flex_groups, flex_groups) is covers_all_chunks


@pytest.mark.parametrize(
    "stack_map",
    [
        pytest.param(StackMap(("a", "b"), None, lambda _: (), lambda _: (), 65536), id="no stripe"),
        pytest.param(
            StackMap(("a", "b"), striped_geometry(2, 512), lambda _: (), lambda _: (), None),
            id="zones",
        ),
        pytest.param(map_of(striped_geometry(2, 2)), id="chunk smaller than a block"),
        pytest.param(map_of(striped_geometry(2, 6)), id="chunk of one block and a half"),
    ],
)
def test_an_invalid_period_of_chunks_is_refused(stack_map: StackMap) -> None:
    """Advice needs a repeating period of chunks, each of whole blocks."""
    with pytest.raises(ValueError, match=r"stripe|chunk"):
        StripePeriod(stack_map, 4096)


TIB = 1 << 40
META_BG = MkfsOptions(features=DEFAULT_FEATURES - {"resize_inode"} | {"meta_bg"})


def test_a_group_that_changes_alone_writes_its_descriptor() -> None:
    """Each transaction writes it."""
    assert descriptor_writes(mke2fs_sizes(TIB), groups=1) == pytest.approx(1.0)


def test_one_descriptor_block_is_written_once() -> None:
    """A filesystem of 1 GiB has one, for all groups."""
    small = mke2fs_sizes(1 << 30)
    assert descriptor_table_blocks(small) == 1
    assert descriptor_writes(small, groups=100) == pytest.approx(0.01)


def test_more_changes_between_checkpoints_need_fewer_writes_each() -> None:
    """A larger filesystem has fewer coalesced writes."""
    found = [descriptor_writes(mke2fs_sizes(TIB), groups) for groups in (1, 10, 100, 1000)]
    assert found == sorted(found, reverse=True)
    assert descriptor_writes(mke2fs_sizes(16 * TIB)) > descriptor_writes(mke2fs_sizes(TIB))


def test_descriptors_of_meta_bg_are_not_adjacent() -> None:
    """Their writes are not merged."""
    assert descriptor_writes(mke2fs_sizes(TIB, META_BG)) > descriptor_writes(mke2fs_sizes(TIB))
