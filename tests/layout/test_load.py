"""measure: the metadata of every group, counted per member."""

from __future__ import annotations

import time
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.layout import MemberLoad, StripeGeometry
from ext4audit.facts.superblock import GroupTable
from ext4audit.layout.bitmap_placement import measure
from ext4audit.layout.byte_map import Place, StackMap
from ext4audit.layout.groups import predict_table
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import MkfsOptions, mke2fs_sizes
from support.builders import sizes, unknown
from support.examples import examples
from support.images.mke2fs import TWELVE_DISKS_BLOCKS, layout_of, needs_e2fsprogs, striped_geometry

TIB = 1 << 40
FOUR = StripeGeometry("md0", "raid0", 65536, 0, ("a", "b", "c", "d"))
TWO_GROUPS = sizes(size_blocks=40000, blocks_per_group=32768, flex_bg_groups=1)
FEW = GroupTable([0, 1], [16, 17], [32, 48])


def test_each_kind_of_metadata_is_counted_on_its_member() -> None:
    """Bitmaps and inode tables count at their start; block 1 has the descriptors of both groups."""
    measured = measure(FEW, TWO_GROUPS, map_of(FOUR))
    assert measured.members == (
        MemberLoad("a", 2, 0, 0, descriptor_blocks=1, described_groups=2),
        MemberLoad("b", 0, 2, 0),
        MemberLoad("c", 0, 0, 1),
        MemberLoad("d", 0, 0, 1),
    )
    assert (measured.groups, measured.flex_bg_groups, measured.cluster_blocks) == (2, 1, 1)
    assert (measured.geometry, measured.basis, measured.doubts) == (FOUR, "descriptors", ())


@pytest.mark.parametrize(
    ("offset_bytes", "block_bitmaps"),
    [
        pytest.param(0, [2, 0, 0, 0], id="none"),
        pytest.param(65536, [0, 2, 0, 0], id="one chunk"),
        pytest.param(65536 - 4096, [1, 1, 0, 0], id="a block less than a chunk"),
        pytest.param(
            65536 - 512, [1, 1, 0, 0], id="a sector before a chunk ends: block 0 is in it"
        ),
    ],
)
def test_the_filesystem_begins_at_an_offset(offset_bytes: int, block_bitmaps: list[int]) -> None:
    """A block's place is that of its first byte, counted from the start of the stripe."""
    geometry = FOUR._replace(offset_bytes=offset_bytes)
    measured = measure(GroupTable([0, 1], [2, 3], [4, 5]), TWO_GROUPS, map_of(geometry))
    assert [each.block_bitmaps for each in measured.members] == block_bitmaps


def test_a_mirrored_block_counts_on_every_copy() -> None:
    """RAID10 with two near copies writes each bitmap on two members."""
    geometry = FOUR._replace(level="raid10", layout=0x102)
    measured = measure(FEW, TWO_GROUPS, map_of(geometry))
    assert [each.block_bitmaps for each in measured.members] == [2, 2, 0, 0]
    assert [each.inode_bitmaps for each in measured.members] == [0, 0, 2, 2]


def test_parity_is_counted_beside_the_data() -> None:
    """RAID5 left-symmetric: chunks 0 to 2 have their parity on member 3, chunk 3 on member 2."""
    geometry = FOUR._replace(level="raid5", layout=2)
    measured = measure(FEW, TWO_GROUPS, map_of(geometry))
    assert [each.bitmaps for each in measured.members] == [2, 2, 0, 0]
    assert [each.bitmap_parity for each in measured.members] == [0, 0, 0, 4]
    # One inode table starts in chunk 2, one in chunk 3; chunk 0 has both descriptors.
    assert [each.touch_parity for each in measured.members] == [0, 0, 1, 7]
    assert measured.bitmaps.loads == (2, 2, 0, 4)


def test_basis_and_doubts_are_passed_on() -> None:
    """The origin of the positions is kept with the counts."""
    gap = unknown("stripe")
    measured = measure(FEW, TWO_GROUPS, map_of(FOUR), basis="simulated", doubts=(gap,))
    assert (measured.basis, measured.doubts) == ("simulated", (gap,))


def test_a_stack_without_a_stripe_is_counted_too() -> None:
    """Two concatenated disks have members, but no geometry and no period."""

    def data(byte: int) -> tuple[Place, ...]:
        return (Place(int(byte >= 17 * 4096), byte),)

    two = StackMap(("a", "b"), None, data, lambda _: (), None)
    measured = measure(FEW, TWO_GROUPS, two)
    assert measured.geometry is None
    assert [each.inode_bitmaps for each in measured.members] == [1, 1]


def test_small_chunks_below_large_ones_are_distinguished() -> None:
    """A stripe over stripes rotates within the chunk of the upper one."""
    upper = StripeGeometry("lv", "dm-striped", 1 << 20, 0, ("a", "b", "c", "d"))

    def data(byte: int) -> tuple[Place, ...]:
        lower = byte // (64 << 10) % 2
        return (Place(2 * (byte // (1 << 20) % 2) + lower, byte),)

    nested = StackMap(upper.members, upper, data, lambda _: (), 2 << 20, 64 << 10)
    measured = measure(FEW, TWO_GROUPS, nested)
    assert [each.block_bitmaps for each in measured.members] == [2, 0, 0, 0]
    assert [each.inode_bitmaps for each in measured.members] == [0, 2, 0, 0]


def test_a_table_that_does_not_fit_the_filesystem_is_refused() -> None:
    """A truncated group table is not counted as a whole filesystem."""
    with pytest.raises(ValueError, match="1 group descriptors of 3"):
        measure(GroupTable([1], [2], [3]), sizes(size_blocks=3 * 32768), map_of(FOUR))


GEOMETRIES = st.builds(
    lambda members, chunk, offset, level: StripeGeometry(
        "md0", level, chunk * 512, offset * 512, tuple(str(slot) for slot in range(members))
    ),
    st.integers(4, 16),
    st.sampled_from([2, 3, 8, 12, 20, 128, 1032]),
    st.sampled_from([0, 1, 63, 2048]),
    st.sampled_from(["raid0", "raid10", "raid5", "raid6"]),
)


@examples(60)
@given(GEOMETRIES, st.lists(st.integers(0, 1 << 40), min_size=1, max_size=40))
def test_folding_by_periods_and_chunks_changes_no_count(
    geometry: StripeGeometry, blocks: list[int]
) -> None:
    """The counts equal those of single blocks, for any chunk and offset."""
    stack_map = map_of(geometry)
    table = GroupTable(array("Q", blocks), array("Q", blocks), array("Q", blocks))
    block = sizes(size_blocks=32768 * len(blocks))
    measured = measure(table, block, stack_map)
    loads = [0] * len(geometry.members)
    for each in blocks:
        for place in stack_map.data(each * 4096):
            loads[place.member] += 1
    assert [member.inode_tables for member in measured.members] == loads


def test_half_a_million_groups_are_counted_in_a_moment() -> None:
    """64 TiB: 524,288 groups with three blocks each, on 12 disks."""
    block = mke2fs_sizes(64 * TIB, MkfsOptions(group_option=32744))
    table = predict_table(block)
    stack_map = map_of(striped_geometry(12, 512))
    started = time.process_time()
    measured = measure(table, block, stack_map)
    assert time.process_time() - started < 1.0
    assert measured.groups == 524673
    assert measured.effective_members == pytest.approx(12, abs=0.01)


DEFAULT = [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]
WITH_32744 = [1572, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1632, 1600, 1600]


@pytest.mark.parametrize(
    ("group_option", "bitmaps"), [(None, DEFAULT), (32744, WITH_32744)], ids=["default", "32744"]
)
def test_the_closed_form_gives_the_bitmaps_of_twelve_disks(
    group_option: int | None, bitmaps: list[int]
) -> None:
    """12 x (100 GiB - 64 MiB), chunks of 512 KiB: the figures of the public article, computed."""
    block = mke2fs_sizes(TWELVE_DISKS_BLOCKS * 4096, MkfsOptions(group_option=group_option))
    measured = measure(
        predict_table(block), block, map_of(striped_geometry(12, 512)), basis="computed"
    )
    assert [member.bitmaps for member in measured.members] == bitmaps


def test_a_thousand_group_starts_are_on_three_of_twelve_disks() -> None:
    """The public article's script counts where 1,000 groups of 32768 blocks begin."""
    stack_map = map_of(striped_geometry(12, 512))
    starts = [0] * 12
    for group in range(1000):
        (place,) = stack_map.data(group * 32768 * 4096)
        starts[place.member] += 1
    assert starts == [334, 0, 0, 0, 333, 0, 0, 0, 333, 0, 0, 0]


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("options", "bitmaps", "effective_members"),
    [
        ("", DEFAULT, 3.01),
        ("-E stride=128,stripe_width=1536", DEFAULT, 3.01),
        ("-g 32744", WITH_32744, 12.0),
    ],
)
def test_twelve_disks_get_the_bitmaps_that_were_counted_on_a_real_array(
    options: str, bitmaps: list[int], effective_members: float
) -> None:
    """mke2fs's defaults put the bitmaps on 3 of 12 disks, with or without a stride."""
    measured = layout_of(options, 12, 512, TWELVE_DISKS_BLOCKS)
    assert [member.bitmaps for member in measured.members] == bitmaps
    assert round(measured.effective_members, 2) == effective_members


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("members", "chunk_kib", "options", "effective_members", "inode_tables"),
    [
        (12, 512, "-g 32744", 12.0, 12.0),
        (12, 1024, "-g 32744", 12.0, 12.0),
        (12, 2048, "-g 32744", 12.0, 12.0),
        (12, 256, "-g 32744", 6.0, 6.0),
        (2, 256, "-g 32744", 1.0, 1.0),
        (12, 128, "-g 32744", 3.0, 3.0),
        (4, 128, "-g 32744", 1.0, 1.0),
        (8, 64, "-g 32744", 2.0, 1.0),
        (12, 512, "-g 32744 -G 32", 6.0, 6.0),
        (12, 512, "-g 32744 -G 64", 3.0, 3.0),
        (12, 512, "-g 32744 -O bigalloc -C 65536", 3.2, 6.1),
        (12, 256, "-g 32744 -G 8", 12.0, 12.0),
        (8, 64, "-g 32744 -G 2", 8.0, 8.0),
        (12, 64, "-g 32744 -G 2", 12.0, 12.0),
        (12, 512, "-g 32736", 1.0, 3.0),
        (3, 512, "-g 32760", 1.0, 3.0),
        (12, 512, "-O ^flex_bg -E stride=128", 12.0, 3.0),
        (12, 512, "-E packed_meta_blocks=1", 12.0, 3.0),
        (12, 512, "-G 1 -g 32384", 12.0, 12.0),
    ],
)
def test_group_size_32744_depends_on_the_chunk(
    members: int, chunk_kib: int, options: str, effective_members: float, inode_tables: float
) -> None:
    """`-g 32744` uses all disks only if the chunk is large enough for the flex group."""
    measured = layout_of(options, members, chunk_kib, TWELVE_DISKS_BLOCKS)
    assert round(measured.effective_members, 1) == effective_members
    assert round(measured.inode_tables.effective_members, 1) == inode_tables


@pytest.mark.parametrize(
    ("level", "members", "of_the_data", "of_all_writes"),
    [
        ("raid0", 4, 1.0, 1.0),
        ("raid0", 5, 5.0, 5.0),
        ("raid0", 6, 3.0, 3.0),
        ("raid0", 12, 3.0, 3.0),
        ("raid0", 16, 1.0, 1.0),
        ("raid5", 4, 1.0, 3.0),
        ("raid5", 5, 5.0, 5.0),
        ("raid5", 6, 3.0, 5.2),
        ("raid5", 8, 1.0, 3.5),
        ("raid5", 12, 3.0, 7.4),
        ("raid6", 4, 1.0, 3.0),
        ("raid6", 8, 3.0, 6.2),
        ("raid6", 12, 10.7, 11.8),
        ("raid10", 4, 2.0, 2.0),
        ("raid10", 5, 5.0, 5.0),
        ("raid10", 6, 6.0, 6.0),
        ("raid10", 12, 6.0, 6.0),
    ],
)
def test_parity_spreads_the_writes_of_the_default_layout(
    level: str, members: int, of_the_data: float, of_all_writes: float
) -> None:
    """Parity spreads the writes but not the bitmaps themselves; chunks are of 512 KiB."""
    block = mke2fs_sizes(TWELVE_DISKS_BLOCKS * 4096)
    measured = measure(predict_table(block), block, map_of(striped_geometry(members, 512, level)))
    assert round(measured.bitmap_data.effective_members, 1) == of_the_data
    assert round(measured.effective_members, 1) == of_all_writes


@pytest.mark.parametrize(
    ("size_tib", "options", "effective_members", "hottest_share"),
    [
        (1.2, MkfsOptions(), 3.0, 0.46),
        (1.2, MkfsOptions(group_option=32744), 8.2, 0.27),
        (4, MkfsOptions(), 5.5, 0.27),
        (4, MkfsOptions(group_option=32744), 10.7, 0.125),
        (12, MkfsOptions(group_option=32744), 12.0, 0.083),
    ],
)
def test_small_files_touch_the_descriptor_table_as_well(
    size_tib: float, options: MkfsOptions, effective_members: float, hottest_share: float
) -> None:
    """The descriptor table is a hotspot unless the filesystem has as many TiB as disks."""
    block = mke2fs_sizes(int(size_tib * TIB), options)
    measured = measure(predict_table(block), block, map_of(striped_geometry(12, 512)))
    assert measured.touches.effective_members == pytest.approx(effective_members, abs=0.06)
    assert measured.touches.hottest_share == pytest.approx(hottest_share, abs=0.006)
