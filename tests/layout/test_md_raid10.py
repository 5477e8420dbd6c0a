from __future__ import annotations

import pytest

from ext4audit.layout.md_raid10 import raid10
from layout.drawing import CHUNK_BYTES, draw

C = CHUNK_BYTES
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
def test_copies_lie_where_md_draws_them(
    members: int, layout: int, chunks: int, rows: list[str]
) -> None:
    """md(4) draws near, far and offset copies so; raid10.c keeps sets of members together."""
    assert draw(raid10(members, C, layout, 16 * C), members, chunks) == rows


@pytest.mark.parametrize(
    ("members", "size_chunks", "second_copy"),
    [(4, 16, 8), (4, 17, 8), (3, 8, 4), (2, 1000, 500)],
)
def test_far_copies_begin_at_the_same_part_of_every_member(
    members: int, size_chunks: int, second_copy: int
) -> None:
    """Two copies: at the half of the chunks that are used."""
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
def test_a_period_is_the_chunks_after_which_members_come_again(
    members: int, layout: int, period_chunks: int, advance_chunks: int
) -> None:
    """By then each member is that many chunks further on."""
    layer = raid10(members, C, layout, 64 * C)
    assert (layer.period_bytes, layer.advance_bytes) == (period_chunks * C, advance_chunks * C)


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
    """More copies than members, none at all, two kinds at once, or bits that mean nothing."""
    with pytest.raises(ValueError, match=r"layout|chunks"):
        raid10(members, chunk_bytes, layout, 64 * C)
