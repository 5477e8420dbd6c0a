"""measure: the metadata of every group, counted per member."""

from __future__ import annotations

import time

import pytest

from builders import superblock
from ext4audit.facts.groups import GroupLocation
from ext4audit.facts.layout import MemberLoad, StripeGeometry
from ext4audit.layout.load import measure, member_of_block
from real_mke2fs import TWELVE_DISKS_BLOCKS, layout_of, needs_e2fsprogs

FOUR = StripeGeometry("md0", "raid0", 65536, 0, ("a", "b", "c", "d"))
SHIFTED = StripeGeometry("md0", "raid0", 65536, 1 << 15, ("a", "b", "c", "d"))


@pytest.mark.parametrize(
    ("block", "geometry", "member"),
    [
        (0, FOUR, 0),
        (15, FOUR, 0),
        (16, FOUR, 1),
        (63, FOUR, 3),
        (64, FOUR, 0),
        (7, SHIFTED, 0),
        (8, SHIFTED, 1),
    ],
)
def test_chunk_k_lies_on_member_k_modulo_n(
    block: int, geometry: StripeGeometry, member: int
) -> None:
    """A block lies where its byte, counted from the stripe's start, lies."""
    assert member_of_block(block, geometry, 4096) == member


def test_each_kind_of_metadata_is_counted_on_its_member() -> None:
    """Bitmaps and inode tables count where they start."""
    locations = (GroupLocation(0, 0, 16, 32), GroupLocation(1, 1, 17, 48))
    measured = measure(
        locations, superblock(size_blocks=40000, blocks_per_group=32768, flex_bg_groups=None), FOUR
    )
    assert measured.members == (
        MemberLoad("a", 2, 0, 0),
        MemberLoad("b", 0, 2, 0),
        MemberLoad("c", 0, 0, 1),
        MemberLoad("d", 0, 0, 1),
    )
    assert (measured.groups, measured.flex_bg_groups, measured.cluster_blocks) == (2, 1, 1)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"block_bytes": None}, "not known"),
        ({"blocks_per_group": None}, "not known"),
        ({"first_block": None}, "not known"),
        ({"size_blocks": 32768 * 3}, "1 group descriptors of 3"),
    ],
)
def test_a_table_that_does_not_fit_the_superblock_is_refused(
    fields: dict[str, int | None], says: str
) -> None:
    """A truncated group table is not counted as a whole filesystem."""
    block = superblock(**{"size_blocks": 32768, **fields})
    with pytest.raises(ValueError, match=says):
        measure((GroupLocation(0, 1, 2, 3),), block, FOUR)


def test_half_a_million_groups_are_counted_in_seconds() -> None:
    """A filesystem of 64 TiB is measured in well under ten seconds."""
    locations = [GroupLocation(g, g * 32768, g * 32768 + 1, g * 32768 + 2) for g in range(500_000)]
    block = superblock(size_blocks=500_000 * 32768)
    started = time.process_time()
    measured = measure(locations, block, FOUR)
    assert time.process_time() - started < 10
    assert [member.block_bitmaps for member in measured.members] == [500_000, 0, 0, 0]


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("options", "bitmaps", "effective_members"),
    [
        ("", [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0], 3.01),
        ("-E stride=128,stripe_width=1536", [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0], 3.01),
        (
            "-g 32744",
            [1572, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1632, 1600, 1600],
            12.0,
        ),
    ],
)
def test_twelve_disks_get_the_bitmaps_that_were_counted_on_a_real_array(
    options: str, bitmaps: list[int], effective_members: float
) -> None:
    """mke2fs's defaults put the bitmaps on 3 of 12 disks, with a stride or without."""
    measured = layout_of(options, 12, 512, TWELVE_DISKS_BLOCKS)
    assert [member.bitmaps for member in measured.members] == bitmaps
    assert round(measured.effective_members, 2) == effective_members


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("members", "chunk_kib", "options", "effective_members"),
    [
        (12, 1024, "-g 32744", 12.0),
        (12, 2048, "-g 32744", 12.0),
        (12, 256, "-g 32744", 6.0),
        (2, 256, "-g 32744", 1.0),
        (12, 128, "-g 32744", 3.0),
        (4, 128, "-g 32744", 1.0),
        (8, 64, "-g 32744", 2.0),
        (12, 512, "-g 32744 -G 32", 6.0),
        (12, 512, "-g 32744 -G 64", 3.0),
        (12, 512, "-g 32744 -O bigalloc -C 65536", 3.2),
        (12, 512, "-g 32736", 1.0),
        (3, 512, "-g 32760", 1.0),
    ],
)
def test_the_well_known_group_size_is_no_universal_cure(
    members: int, chunk_kib: int, options: str, effective_members: float
) -> None:
    """`-g 32744` serves all disks only where the chunk is large enough for the flex group."""
    measured = layout_of(options, members, chunk_kib, TWELVE_DISKS_BLOCKS)
    assert round(measured.effective_members, 1) == effective_members
