from __future__ import annotations

import pytest

from ext4audit.layout.levels import layer_of
from layout.drawing import CHUNK_BYTES, draw

C = CHUNK_BYTES
FOUR = [8 * C] * 4


@pytest.mark.parametrize(
    ("level", "layout", "rows"),
    [
        ("raid0", None, ["0 1 2 3"]),
        ("dm-striped", None, ["0 1 2 3"]),
        ("raid10", None, ["0 0 1 1", "2 2 3 3"]),
        ("raid10", 0x10201, ["0 1 2 3", "3 0 1 2"]),
        ("raid4", None, ["0 1 2 P", "3 . . P"]),
        ("raid5", None, ["0 1 2 P", ". . P 3"]),
        ("raid5", 4, ["P 0 1 2", "P 3 . ."]),
        ("raid6", None, ["Q 0 1 P", "2 3 P Q"]),
        ("linear", None, ["0 . . .", "1 . . .", "2 . . .", "3 . . ."]),
        ("raid1", None, ["0 0 0 0", "1 1 1 1", "2 2 2 2", "3 3 3 3"]),
    ],
)
def test_a_level_has_the_layout_that_mdadm_gives_it(
    level: str, layout: int | None, rows: list[str]
) -> None:
    """Two near copies, left-symmetric parity, unless a number says otherwise."""
    assert draw(layer_of(level, C, layout, FOUR), 4, 4) == rows


def test_a_concatenation_rounds_its_members_only_if_it_has_a_chunk() -> None:
    """`mdadm --rounding` is its chunk; without it, it uses every sector."""
    sizes = [C + 512, C]
    rounded, whole = (layer_of("linear", chunk, None, sizes) for chunk in (C, 0))
    assert (rounded.data(C), whole.data(C)) == (((1, 0),), ((0, C),))


@pytest.mark.parametrize("level", ["", "inactive", "container", "multipath", "faulty", "raid1e"])
def test_another_level_is_refused(level: str) -> None:
    """What it does with a byte is not known."""
    with pytest.raises(ValueError, match="the level is"):
        layer_of(level, C, None, FOUR)


def test_an_array_without_members_is_refused() -> None:
    """It would be a division by zero."""
    with pytest.raises(ValueError, match="no members"):
        layer_of("raid0", C, None, [])
