from __future__ import annotations

import pytest

from ext4audit.layout.md_raid0 import ALTERNATE, ORIGINAL, raid0
from layout.drawing import CHUNK_BYTES, draw

C = CHUNK_BYTES


def test_equal_members_are_one_zone() -> None:
    """The layout does not matter then: sysfs shows -1."""
    layer = raid0([4 * C, 4 * C + C - 1], C, None)
    assert draw(layer, 2, 4) == ["0 1", "2 3"]
    assert (layer.period_bytes, layer.advance_bytes) == (2 * C, C)


ZONES = {
    ORIGINAL: ["0 1 2", ". 4 3", ". 6 5"],
    ALTERNATE: ["0 1 2", ". 3 4", ". 5 6"],
}


@pytest.mark.parametrize("layout", ZONES)
def test_the_second_zone_goes_on_counting_in_the_original_order_only(layout: int) -> None:
    """Members of 1, 3 and 3 chunks: chunk 3 is the second one's by 3 mod 2, else the first's."""
    layer = raid0([C, 3 * C, 3 * C], C, layout)
    assert draw(layer, 3, 7) == ZONES[layout]
    assert layer.period_bytes is None


def test_every_member_that_reaches_further_is_in_the_next_zone() -> None:
    """Members of 2, 3, 2 and 5 chunks make three zones, in the order of the slots."""
    layer = raid0([2 * C, 3 * C, 2 * C, 5 * C], C, ALTERNATE)
    assert draw(layer, 4, 12) == ["0 1 2 3", "4 5 6 7", ". 8 . 9", ". . . 10", ". . . 11"]


def test_members_are_rounded_down_to_chunks() -> None:
    """A part of a chunk at the end of the longer member makes no zone."""
    layer = raid0([C + 100, 2 * C + 50], C, ALTERNATE)
    assert layer.data(2 * C) == ((1, C),)
    with pytest.raises(ValueError, match="beyond"):
        layer.data(3 * C)


def test_a_member_smaller_than_a_chunk_holds_nothing() -> None:
    """It is left out of every zone."""
    assert draw(raid0([C - 1, 2 * C], C, ALTERNATE), 2, 2) == [". 0", ". 1"]


@pytest.mark.parametrize("layout", [None, 0, 3, -1])
def test_an_order_of_zones_that_is_not_set_is_not_guessed(layout: int | None) -> None:
    """Linux before 3.14 and after it put the chunks on different members."""
    with pytest.raises(ValueError, match="the order in zones is not set"):
        raid0([C, 2 * C], C, layout)


@pytest.mark.parametrize("sizes", [[], [0, 0], [-C, C]])
def test_sizes_of_which_no_array_is_made_are_refused(sizes: list[int]) -> None:
    """Without room there is no zone."""
    with pytest.raises(ValueError, match=r"bytes|zones|legs"):
        raid0(sizes, C, None)
