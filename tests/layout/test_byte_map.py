from __future__ import annotations

from collections.abc import Callable

import pytest

from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.byte_map import (
    ByteMap,
    Layer,
    Place,
    concatenated,
    leaf_device,
    mirrored,
    stacked,
    striped,
)

K64, K520 = 64 << 10, 520 << 10


def test_chunks_are_spread_over_the_components() -> None:
    """With three components, chunk k is on component k mod 3, in stripe k // 3."""
    layer = striped(3, K64)
    assert [layer.data(chunk * K64 + 5) for chunk in range(4)] == [
        ((0, 5),),
        ((1, 5),),
        ((2, 5),),
        ((0, K64 + 5),),
    ]
    assert (layer.parity(5), layer.period_bytes, layer.advance_bytes) == ((), 3 * K64, K64)


def test_a_chunk_need_not_be_a_power_of_two() -> None:
    """RAID0 of md accepts 520 KiB."""
    layer = striped(2, K520)
    assert [layer.data(byte) for byte in (3 * K520 - 1, 3 * K520)] == [
        ((0, 2 * K520 - 1),),
        ((1, K520),),
    ]


def test_every_component_of_a_mirror_holds_every_byte() -> None:
    """The offset is the same on each, so any distance is a period."""
    layer = mirrored(3)
    assert layer.data(7) == ((0, 7), (1, 7), (2, 7))
    assert (layer.parity(7), layer.period_bytes, layer.advance_bytes) == ((), 1, 1)


def test_a_concatenation_ends_one_component_before_the_next() -> None:
    """For parts of 100 and 50 bytes, byte 100 is the first of the second; byte 150 is outside."""
    layer = concatenated([100, 50])
    assert [layer.data(byte) for byte in (0, 99, 100, 149)] == [
        ((0, 0),),
        ((0, 99),),
        ((1, 0),),
        ((1, 49),),
    ]
    assert (layer.begins_bytes, layer.period_bytes) == ((0, 100), None)
    with pytest.raises(ValueError, match="byte 150 is beyond 150 bytes"):
        layer.data(150)
    assert concatenated([1, 1]).data(1) == ((1, 0),)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: striped(0, 4096), id="no components"),
        pytest.param(lambda: striped(2, 0), id="no chunk"),
        pytest.param(lambda: striped(2, -4096), id="a negative chunk"),
        pytest.param(lambda: concatenated([]), id="no parts"),
        pytest.param(lambda: concatenated([1, 0]), id="an empty part"),
        pytest.param(lambda: concatenated([2, -1]), id="a negative part"),
    ],
)
def test_numbers_that_make_no_map_are_refused(make: Callable[[], Layer]) -> None:
    """The numbers come from texts of unknown origin."""
    with pytest.raises(ValueError, match="bytes"):
        make()


def disks(count: int, size_bytes: int | None = None) -> list[tuple[ByteMap, int]]:
    """Return components that are whole devices."""
    return [(leaf_device(number, size_bytes), 0) for number in range(count)]


def test_a_component_may_begin_at_an_offset() -> None:
    """The second copy of a mirror starts 4 KiB into its device."""
    byte_map = stacked(mirrored(2), [(leaf_device(0, None), 0), (leaf_device(1, None), 4096)], None)
    assert byte_map.data(7) == (Place(0, 7), Place(1, 4103))


@pytest.mark.parametrize("byte", [-1, 4096, 1 << 70])
def test_a_byte_beyond_a_device_has_no_place(byte: int) -> None:
    """This holds for its data and its parity."""
    byte_map = stacked(mirrored(1), disks(1), 4096)
    for find in (byte_map.data, byte_map.parity):
        with pytest.raises(ValueError, match="beyond the device of 4096 bytes"):
            find(byte)


def test_a_byte_beyond_the_device_below_has_no_place() -> None:
    """An array may report a size larger than its members."""
    byte_map = stacked(striped(2, 4096), disks(2, 8192), 1 << 40)
    assert byte_map.data(4 * 4096 - 1) == (Place(1, 8191),)
    with pytest.raises(ValueError, match="beyond the device of 8192 bytes"):
        byte_map.data(4 * 4096)


PERIODS = [
    pytest.param(lambda: leaf_device(0, None), 1, id="one disk"),
    pytest.param(lambda: stacked(mirrored(2), disks(2), None), 1, id="a mirror"),
    pytest.param(lambda: stacked(striped(3, 4096), disks(3), None), 12288, id="a stripe"),
    pytest.param(lambda: stripe_at(1 << 20), 12288, id="a stripe further on"),
    pytest.param(lambda: stacked(concatenated([9, 9]), disks(2), None), None, id="parts"),
    # Two stripes of 12 KiB below chunks of 8 KiB: their members repeat after 24 KiB of each.
    pytest.param(lambda: stripes_of_stripes(8192), 49152, id="a stripe over stripes"),
    pytest.param(lambda: stripes_of_stripes(12288), 24576, id="chunks of whole stripes"),
]


def stripe_at(start_bytes: int) -> ByteMap:
    """Return a window of a stripe of three."""
    return stacked(mirrored(1), [(stacked(striped(3, 4096), disks(3), None), start_bytes)], None)


def stripes_of_stripes(chunk_bytes: int) -> ByteMap:
    """Return a stripe over two stripes of three."""
    below = [(stacked(striped(3, 4096), disks(3), None), 0) for _ in range(2)]
    return stacked(striped(2, chunk_bytes), below, None)


@pytest.mark.parametrize(("make", "period_bytes"), PERIODS)
def test_a_period_ends_when_the_members_repeat(
    make: Callable[[], ByteMap], period_bytes: int | None
) -> None:
    """The periods of nested layers multiply; a concatenation has none."""
    assert make().period_bytes == period_bytes


def test_a_member_that_is_used_twice_is_one_leaf() -> None:
    """Two partitions of one disk are an example."""
    disk = leaf_device(0, None)
    assert stacked(striped(2, 4096), [(disk, 0), (disk, 1 << 20)], None).leaves == (0,)


def test_the_geometry_of_a_lower_device_is_that_of_the_upper_one() -> None:
    """A window that starts 8 KiB into the second part sees the stripe 8 KiB further on.

    Before the concatenation the stripe begins 100 KiB back, so only its place in it is kept.
    """
    geometry = StripeGeometry("md0", "raid0", 4096, 0, ("a", "b", "c"))
    stripe = ByteMap(
        leaf_device(0, None).data, leaf_device(0, None).parity, (0,), 1, 12288, geometry
    )
    window = stacked(mirrored(1), [(stripe, 8192)], None)
    parts = stacked(concatenated([102400, 4096]), [(leaf_device(1, None), 0), (window, 0)], None)
    assert window.geometry == StripeGeometry("md0", "raid0", 4096, 8192, ("a", "b", "c"))
    assert parts.geometry == StripeGeometry("md0", "raid0", 4096, 4096, ("a", "b", "c"))


def test_a_component_before_the_start_of_its_device_is_refused() -> None:
    """A text of sysfs may claim this."""
    with pytest.raises(ValueError, match="a component at byte -1"):
        stacked(mirrored(1), [(leaf_device(0, None), -1)], None)


def test_nested_mirrors_do_not_recurse_endlessly() -> None:
    """Each mirror doubles the places of a byte: a lookup in forty of them would not end."""
    byte_map = leaf_device(0, None)
    for _ in range(12):
        byte_map = stacked(mirrored(2), [(byte_map, 0), (byte_map, 0)], None)
    assert byte_map.places == 4096
    with pytest.raises(ValueError, match="8192 places"):
        stacked(mirrored(2), [(byte_map, 0), (byte_map, 0)], None)
