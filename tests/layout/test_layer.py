from __future__ import annotations

from collections.abc import Callable

import pytest

from ext4audit.layout.layer import Layer, concatenated, mirrored, striped

K64, K520 = 64 << 10, 520 << 10


def test_chunks_go_round_the_legs() -> None:
    """Chunk k of three lies on leg k mod 3, at stripe k // 3."""
    layer = striped(3, K64)
    assert [layer.data(chunk * K64 + 5) for chunk in range(4)] == [
        ((0, 5),),
        ((1, 5),),
        ((2, 5),),
        ((0, K64 + 5),),
    ]
    assert (layer.parity(5), layer.period_bytes, layer.advance_bytes) == ((), 3 * K64, K64)


def test_a_chunk_need_not_be_a_power_of_two() -> None:
    """RAID0 of md takes 520 KiB."""
    layer = striped(2, K520)
    assert [layer.data(byte) for byte in (3 * K520 - 1, 3 * K520)] == [
        ((0, 2 * K520 - 1),),
        ((1, K520),),
    ]


def test_every_leg_of_a_mirror_holds_every_byte() -> None:
    """At the same place, so that any distance is a period."""
    layer = mirrored(3)
    assert layer.data(7) == ((0, 7), (1, 7), (2, 7))
    assert (layer.parity(7), layer.period_bytes, layer.advance_bytes) == ((), 1, 1)


def test_a_concatenation_ends_one_leg_before_it_begins_the_next() -> None:
    """Parts of 100 and 50 bytes: byte 100 is the first of the second, and 150 is none."""
    layer = concatenated([100, 50])
    assert [layer.data(byte) for byte in (0, 99, 100, 149)] == [
        ((0, 0),),
        ((0, 99),),
        ((1, 0),),
        ((1, 49),),
    ]
    assert (layer.begins, layer.period_bytes) == ((0, 100), None)
    with pytest.raises(ValueError, match="byte 150 is beyond 150 bytes"):
        layer.data(150)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: striped(0, 4096), id="no legs"),
        pytest.param(lambda: striped(2, 0), id="no chunk"),
        pytest.param(lambda: striped(2, -4096), id="a negative chunk"),
        pytest.param(lambda: concatenated([]), id="no parts"),
        pytest.param(lambda: concatenated([1, 0]), id="an empty part"),
        pytest.param(lambda: concatenated([2, -1]), id="a negative part"),
    ],
)
def test_numbers_of_which_nothing_can_be_made_are_refused(make: Callable[[], Layer]) -> None:
    """They come from texts that anybody may have written."""
    with pytest.raises(ValueError, match="bytes"):
        make()
