from __future__ import annotations

import pytest

from ext4audit.layout.md_raid456 import raid456
from layout.drawing import CHUNK_BYTES, draw

C = CHUNK_BYTES

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
def test_the_parity_of_raid5_turns_as_its_layout_says(layout: int) -> None:
    """Rows of four members by raid5.c (6.1); 2 is what mdadm makes."""
    assert draw(raid456("raid5", 4, C, layout), 4, 12) == FOUR[layout]


@pytest.mark.parametrize("layout", FIVE)
def test_the_parities_of_raid6_turn_as_their_layout_says(layout: int) -> None:
    """Rows of five members by raid5.c (6.1); 8 to 10 are DDF's, 16 to 20 keep Q on the last."""
    assert draw(raid456("raid6", 5, C, layout), 5, 15) == FIVE[layout]


@pytest.mark.parametrize("layout", [0, 2, 4])
def test_raid4_keeps_its_parity_on_the_last_member(layout: int) -> None:
    """Whatever sysfs shows for its layout."""
    assert draw(raid456("raid4", 4, C, layout), 4, 6) == FOUR[5][:2]


def test_the_parity_of_a_byte_lies_at_the_same_byte_of_its_chunk() -> None:
    """Byte 5 of chunk 4 of a left-symmetric RAID5 of four: member 0, parity on member 2."""
    layer = raid456("raid5", 4, C, 2)
    assert (layer.data(4 * C + 5), layer.parity(4 * C + 5)) == (((0, C + 5),), ((2, C + 5),))


@pytest.mark.parametrize("chunk", range(24))
def test_data_of_left_symmetric_raid5_lies_on_chunk_mod_all_members(chunk: int) -> None:
    """The well-known advice to count data disks only is wrong for it."""
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
def test_a_period_is_a_whole_turn_of_the_parity(
    level: str, members: int, layout: int, period_chunks: int, advance_chunks: int
) -> None:
    """Where the parity stays, each stripe is a period."""
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
def test_numbers_of_which_no_array_is_made_are_refused(
    level: str, members: int, chunk_bytes: int, layout: int
) -> None:
    """Too few members, no chunk, or a layout of another level."""
    with pytest.raises(ValueError, match=f"{level} of {members}"):
        raid456(level, members, chunk_bytes, layout)
