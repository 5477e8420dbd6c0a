"""Spread: the evenness of loads on the members of a stripe."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Unknown, need
from ext4audit.facts.layout import (
    MemberLoad,
    Spread,
    StripeGeometry,
    judged_members,
    stripe_at_mount,
)
from support.builders import known, layout, superblock, unknown


@pytest.mark.parametrize(
    ("loads", "skew", "effective_members", "evenness", "hottest_share"),
    [
        pytest.param((5, 5, 5, 5), 1.0, 4.0, 1.0, 0.25, id="even"),
        pytest.param((8, 0, 0, 0), 4.0, 1.0, 0.25, 1.0, id="all on one"),
        pytest.param((6, 2, 0, 0), 3.0, 1.6, 0.4, 0.75, id="three quarters on one"),
        pytest.param((0, 0), 1.0, 2.0, 1.0, 0.5, id="nothing to spread is even"),
        pytest.param(
            (6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0),
            4.0025,
            3.0099,
            0.2508,
            0.3335,
            id="the default layout on 12 disks",
        ),
    ],
)
def test_the_numbers_of_a_spread(
    loads: tuple[int, ...],
    skew: float,
    effective_members: float,
    evenness: float,
    hottest_share: float,
) -> None:
    """N_eff is the square of the sum over the sum of squares; Jain's index is N_eff / N."""
    spread = Spread(loads)
    assert spread.skew == pytest.approx(skew, abs=1e-4)
    assert spread.effective_members == pytest.approx(effective_members, abs=1e-4)
    assert spread.evenness == pytest.approx(evenness, abs=1e-4)
    assert spread.hottest_share == pytest.approx(hottest_share, abs=1e-4)


def test_a_member_is_written_by_data_and_by_parity() -> None:
    """Bitmaps count with their parity; touches with all four blocks of a group and their parity."""
    member = MemberLoad("sda", 10, 20, 30, 4, 40, bitmap_parity=5, touch_parity=7)
    assert (member.bitmaps, member.bitmap_writes, member.touches) == (30, 35, 107)


def test_each_kind_of_metadata_has_its_own_spread() -> None:
    """The judged bitmaps are all writes; the others count what their names say."""
    loads = (
        MemberLoad("vdb", 10, 20, 30, 4, 40, bitmap_parity=5, touch_parity=7),
        MemberLoad("vdc", 1, 2, 3, 0, 0, bitmap_parity=0, touch_parity=0),
    )
    measured = layout([1, 1])._replace(members=loads)
    assert measured.bitmaps.loads == (35, 3)
    assert measured.bitmap_data.loads == (30, 3)
    assert measured.inode_tables.loads == (30, 3)
    assert measured.descriptors.loads == (40, 0)
    assert measured.touches.loads == (107, 6)


def test_a_disk_with_parity_of_one_array_and_data_of_another_is_judged() -> None:
    """Two arrays on slices of the same disks, below a stripe."""
    one = StripeGeometry("md1", "raid4", 1 << 16, 0, ("sda", "sdb", "sdc"))
    two = one._replace(device="md2", members=("sdc", "sda", "sdb"))
    over = StripeGeometry("md0", "raid0", 1 << 16, 0, one.members, None, (one, two))
    assert judged_members(over) == (0, 1, 2)
    assert judged_members(over._replace(components=(one, one))) == (0, 1)
    assert judged_members(over._replace(components=(one, ()))) == (0, 1)


def test_the_parity_disk_of_a_raid4_is_not_judged() -> None:
    """It is written with every bitmap, whatever the layout, so an even RAID4 counts as even."""
    measured = layout([100, 100, 100])
    assert measured.geometry is not None
    raid4 = measured._replace(
        geometry=measured.geometry._replace(level="raid4"),
        members=(
            *measured.members[:2],
            MemberLoad("vdd", 0, 0, 0, bitmap_parity=200),
        ),
    )
    assert raid4.bitmaps.loads == (100, 100)
    assert raid4.evenness == 1.0


def test_a_disk_with_another_part_of_the_volume_is_not_judged() -> None:
    """The first part is on vdb, the second striped over the others, all of it on the last."""
    measured = layout((1600, 0, 0, 1600))
    assert measured.geometry is not None
    names = measured.geometry.members
    part = measured._replace(geometry=measured.geometry._replace(members=names[1:]))
    assert part.bitmaps.loads == (0, 0, 1600)
    assert part.evenness == pytest.approx(1 / 3)


def test_without_a_stripe_all_members_are_judged() -> None:
    """A concatenation has members and no geometry."""
    assert layout([3, 1])._replace(geometry=None).bitmaps.loads == (3, 1)


@pytest.mark.parametrize(
    ("width", "stride", "stripe"),
    [
        (0, 0, 0),
        (1, 16, 0),
        (2, 16, 2),
        (0, 1, 0),
        (0, 2, 2),
        (32768, 16, 32768),
        (32769, 16, 16),
        (0, 32769, 0),
    ],
)
def test_stripe_of_a_mount_from_width_or_stride(width: int, stride: int, stripe: int) -> None:
    """One block is no stripe, and neither is a stripe larger than a group."""
    made = superblock(stripe_width_blocks=width, stride_blocks=stride)
    assert need(stripe_at_mount(made, unknown("kernel"))) == stripe


@pytest.mark.parametrize(
    ("linux", "width", "stripe"),
    [((6, 5, 13), 24, 24), ((6, 6, 0), 24, 0), ((6, 6, 0), 48, 48), ((6, 5, 13), 48, 48)],
)
def test_a_stripe_that_is_no_multiple_of_a_cluster_is_turned_off(
    linux: tuple[int, ...], width: int, stripe: int
) -> None:
    """With clusters of 16 blocks, 6.18 says "stripe is disabled"; 6.1 has no such message."""
    made = superblock(stripe_width_blocks=width, stride_blocks=8, cluster_blocks=16)
    assert need(stripe_at_mount(made, known(linux))) == stripe
    is_unknown = isinstance(stripe_at_mount(made, unknown("kernel")), Unknown)
    assert is_unknown is (width % 16 > 0)
