from __future__ import annotations

import pytest

from ext4audit.layout.levels import raid10, raid456
from ext4audit.layout.zones import ALTERNATE, ORIGINAL, raid0
from support.hosts.stacks import CHUNK_BYTES, draw

C = CHUNK_BYTES


def test_equal_members_are_one_zone() -> None:
    """The layout does not matter in this case: sysfs shows -1."""
    layer = raid0([4 * C, 4 * C + C - 1], C, None)
    assert draw(layer, 2, 4) == ["0 1", "2 3"]
    assert (layer.period_bytes, layer.advance_bytes) == (2 * C, C)


ZONES = {
    ORIGINAL: ["0 1 2", ". 4 3", ". 6 5"],
    ALTERNATE: ["0 1 2", ". 3 4", ". 5 6"],
}


@pytest.mark.parametrize("layout", ZONES)
def test_only_the_original_layout_continues_counting_in_the_second_zone(layout: int) -> None:
    """Members of 1, 3 and 3 chunks: chunk 3 is on the last by 3 mod 2, else on the second."""
    layer = raid0([C, 3 * C, 3 * C], C, layout)
    assert draw(layer, 3, 7) == ZONES[layout]
    assert layer.period_bytes is None


def test_every_larger_member_is_in_the_next_zone() -> None:
    """Members of 2, 3, 2 and 5 chunks make three zones, in slot order."""
    layer = raid0([2 * C, 3 * C, 2 * C, 5 * C], C, ALTERNATE)
    assert draw(layer, 4, 12) == ["0 1 2 3", "4 5 6 7", ". 8 . 9", ". . . 10", ". . . 11"]


def test_members_are_rounded_down_to_chunks() -> None:
    """A partial chunk at the end of the longer member makes no zone."""
    layer = raid0([C + 100, 2 * C + 50], C, ALTERNATE)
    assert layer.data(2 * C) == ((1, C),)
    with pytest.raises(ValueError, match="beyond"):
        layer.data(3 * C)


def test_a_member_smaller_than_a_chunk_holds_nothing() -> None:
    """It is left out of every zone."""
    assert draw(raid0([C - 1, 2 * C], C, ALTERNATE), 2, 2) == [". 0", ". 1"]


@pytest.mark.parametrize("layout", [None, 0, 3, -1])
def test_an_unset_order_of_zones_is_not_guessed(layout: int | None) -> None:
    """Linux before 3.14 and after it put the chunks on different members."""
    with pytest.raises(ValueError, match="the order in zones is not set"):
        raid0([C, 2 * C], C, layout)


@pytest.mark.parametrize("sizes", [[], [0, 0], [-C, C]])
def test_sizes_without_usable_space_are_refused(sizes: list[int]) -> None:
    """Without usable space there is no zone."""
    with pytest.raises(ValueError, match=r"bytes|zones|components"):
        raid0(sizes, C, None)


NEAR_2, NEAR_3, FAR_2, OFFSET_2 = 0x102, 0x103, 0x201, 0x10201
FAR_SETS = 2 << 17

DRAWN = [
    pytest.param(4, NEAR_2, 4, ["0 0 1 1", "2 2 3 3"], id="near, 4"),
    pytest.param(3, NEAR_2, 3, ["0 0 1", "1 2 2"], id="near, 3: a copy in the next stripe"),
    pytest.param(4, NEAR_3, 4, ["0 0 0 1", "1 1 2 2", "2 3 3 3"], id="three near copies, 4"),
    pytest.param(
        4, FAR_2, 8, ["0 1 2 3", "4 5 6 7", *[". . . ."] * 6, "3 0 1 2", "7 4 5 6"], id="far, 4"
    ),
    pytest.param(3, OFFSET_2, 6, ["0 1 2", "2 0 1", "3 4 5", "5 3 4"], id="offset, 3"),
    pytest.param(4, OFFSET_2 | FAR_SETS, 4, ["0 1 2 3", "1 0 3 2"], id="offset in sets of two, 4"),
    pytest.param(
        5, OFFSET_2 | FAR_SETS, 5, ["0 1 2 3 4", "1 0 4 2 3"], id="the last set takes the rest"
    ),
]


@pytest.mark.parametrize(("members", "layout", "chunks", "rows"), DRAWN)
def test_copies_are_placed_as_in_md(
    members: int, layout: int, chunks: int, rows: list[str]
) -> None:
    """Near, far and offset copies are as in md(4); raid10.c keeps sets of members together."""
    assert draw(raid10(members, C, layout, 16 * C), members, chunks) == rows


@pytest.mark.parametrize(
    ("members", "size_chunks", "second_copy"),
    [(4, 16, 8), (4, 17, 8), (3, 8, 4), (2, 1000, 500)],
)
def test_far_copies_begin_at_the_same_part_of_every_member(
    members: int, size_chunks: int, second_copy: int
) -> None:
    """With two copies, the second begins at half of the used chunks."""
    layer = raid10(members, C, FAR_2, size_chunks * C + 100)
    assert layer.data(0) == ((0, 0), (1, second_copy * C))


@pytest.mark.parametrize(
    ("members", "layout", "period_chunks", "advance_chunks"),
    [
        (4, NEAR_2, 2, 1),
        (3, NEAR_2, 3, 2),
        (4, NEAR_3, 4, 3),
        (4, FAR_2, 4, 1),
        (3, OFFSET_2, 3, 2),
    ],
)
def test_a_period_is_the_number_of_chunks_until_members_repeat(
    members: int, layout: int, period_chunks: int, advance_chunks: int
) -> None:
    """After that, each member has advanced by this many chunks."""
    layer = raid10(members, C, layout, 64 * C)
    assert (layer.period_bytes, layer.advance_bytes) == (period_chunks * C, advance_chunks * C)


def test_a_chunk_may_be_all_of_a_member_or_one_byte() -> None:
    """Both extremes are allowed."""
    assert raid10(2, C, NEAR_2, C).data(0) == ((0, 0), (1, 0))
    assert raid10(2, 1, NEAR_2, C).data(1) == ((0, 1), (1, 1))
    assert raid0([1, 1], 1, ALTERNATE).data(1) == ((1, 0),)
    assert raid456("raid5", 3, 1, 2).data(1) == ((1, 0),)


@pytest.mark.parametrize(
    ("members", "chunk_bytes", "layout"),
    [
        (2, C, 0x103),
        (4, C, 0x002),
        (4, C, 0x202),
        (7, C, 0x10302),
        (4, C, 1 << 17 | FAR_2),
        (4, C, 0x100),
        (4, C, -1),
        (4, C, 1 << 70 | NEAR_2),
        (4, C, 3 << 17 | FAR_2),
        (4, 0, NEAR_2),
        (4, 64 * C + 1, NEAR_2),
        (0, C, NEAR_2),
    ],
)
def test_layouts_that_no_tool_makes_are_refused(
    members: int, chunk_bytes: int, layout: int
) -> None:
    """More copies than members, none at all, two kinds at once, or undefined bits."""
    with pytest.raises(ValueError, match=r"layout|chunks"):
        raid10(members, chunk_bytes, layout, 64 * C)


FOUR = {
    0: ["0 1 2 P", "3 4 P 5", "6 P 7 8", "P 9 10 11"],
    1: ["P 0 1 2", "3 P 4 5", "6 7 P 8", "9 10 11 P"],
    2: ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11"],
    3: ["P 0 1 2", "5 P 3 4", "7 8 P 6", "9 10 11 P"],
    4: ["P 0 1 2", "P 3 4 5", "P 6 7 8", "P 9 10 11"],
    5: ["0 1 2 P", "3 4 5 P", "6 7 8 P", "9 10 11 P"],
}
FIVE = {
    0: ["Q 0 1 2 P", "3 4 5 P Q", "6 7 P Q 8", "9 P Q 10 11", "P Q 12 13 14"],
    1: ["P Q 0 1 2", "3 P Q 4 5", "6 7 P Q 8", "9 10 11 P Q", "Q 12 13 14 P"],
    2: ["Q 0 1 2 P", "3 4 5 P Q", "7 8 P Q 6", "11 P Q 9 10", "P Q 12 13 14"],
    3: ["P Q 0 1 2", "5 P Q 3 4", "7 8 P Q 6", "9 10 11 P Q", "Q 12 13 14 P"],
    4: ["P Q 0 1 2", "P Q 3 4 5", "P Q 6 7 8", "P Q 9 10 11", "P Q 12 13 14"],
    5: ["0 1 2 P Q", "3 4 5 P Q", "6 7 8 P Q", "9 10 11 P Q", "12 13 14 P Q"],
    8: ["P Q 0 1 2", "3 P Q 4 5", "6 7 P Q 8", "9 10 11 P Q", "Q 12 13 14 P"],
    9: ["0 1 2 P Q", "3 4 P Q 5", "6 P Q 7 8", "P Q 9 10 11", "Q 12 13 14 P"],
    10: ["0 1 2 Q P", "4 5 Q P 3", "8 Q P 6 7", "Q P 9 10 11", "P 12 13 14 Q"],
    16: ["0 1 2 P Q", "3 4 P 5 Q", "6 P 7 8 Q", "P 9 10 11 Q", "12 13 14 P Q"],
    17: ["P 0 1 2 Q", "3 P 4 5 Q", "6 7 P 8 Q", "9 10 11 P Q", "P 12 13 14 Q"],
    18: ["0 1 2 P Q", "4 5 P 3 Q", "8 P 6 7 Q", "P 9 10 11 Q", "12 13 14 P Q"],
    19: ["P 0 1 2 Q", "5 P 3 4 Q", "7 8 P 6 Q", "9 10 11 P Q", "P 12 13 14 Q"],
    20: ["P 0 1 2 Q", "P 3 4 5 Q", "P 6 7 8 Q", "P 9 10 11 Q", "P 12 13 14 Q"],
}


@pytest.mark.parametrize("layout", FOUR)
def test_the_layout_of_raid5_decides_how_parity_rotates(layout: int) -> None:
    """Rows of four members as in raid5.c (6.1); 2 is mdadm's default."""
    assert draw(raid456("raid5", 4, C, layout), 4, 12) == FOUR[layout]


@pytest.mark.parametrize("layout", FIVE)
def test_the_layout_of_raid6_decides_how_parities_rotate(layout: int) -> None:
    """Rows of five members as in raid5.c (6.1); 8 to 10 are DDF's, 16 to 20 keep Q on the last."""
    assert draw(raid456("raid6", 5, C, layout), 5, 15) == FIVE[layout]


@pytest.mark.parametrize("layout", [0, 2, 4])
def test_raid4_keeps_its_parity_on_the_last_member(layout: int) -> None:
    """The layout that sysfs shows does not matter."""
    assert draw(raid456("raid4", 4, C, layout), 4, 6) == FOUR[5][:2]


def test_the_parity_of_a_byte_is_at_the_same_byte_of_its_chunk() -> None:
    """Byte 5 of chunk 4 of a left-symmetric RAID5 of four: member 0, parity on member 2."""
    layer = raid456("raid5", 4, C, 2)
    assert (layer.data(4 * C + 5), layer.parity(4 * C + 5)) == (((0, C + 5),), ((2, C + 5),))


@pytest.mark.parametrize("chunk", range(24))
def test_data_of_left_symmetric_raid5_are_on_chunk_modulo_all_members(chunk: int) -> None:
    """The well-known advice to count data disks only is wrong for this layout."""
    ((member, _),) = raid456("raid5", 4, C, 2).data(chunk * C)
    assert member == chunk % 4


@pytest.mark.parametrize(
    ("level", "members", "layout", "period_chunks", "advance_chunks"),
    [
        ("raid4", 4, 0, 3, 1),
        ("raid5", 4, 2, 12, 4),
        ("raid5", 4, 5, 3, 1),
        ("raid6", 5, 2, 15, 5),
        ("raid6", 5, 18, 12, 4),
        ("raid6", 5, 20, 3, 1),
    ],
)
def test_a_period_is_a_full_rotation_of_the_parity(
    level: str, members: int, layout: int, period_chunks: int, advance_chunks: int
) -> None:
    """If the parity does not rotate, each stripe is a period."""
    layer = raid456(level, members, C, layout)
    assert (layer.period_bytes, layer.advance_bytes) == (period_chunks * C, advance_chunks * C)


@pytest.mark.parametrize(
    ("level", "members", "chunk_bytes", "layout"),
    [
        ("raid5", 1, C, 2),
        ("raid6", 2, C, 2),
        ("raid5", 4, 0, 2),
        ("raid5", 4, C, 8),
        ("raid6", 5, C, 7),
        ("raid6", 5, C, 1 << 70),
        ("raid5", 4, C, -1),
    ],
)
def test_numbers_that_make_no_array_are_refused(
    level: str, members: int, chunk_bytes: int, layout: int
) -> None:
    """Too few members, no chunk, or a layout of another level."""
    with pytest.raises(ValueError, match=f"{level} of {members}"):
        raid456(level, members, chunk_bytes, layout)
