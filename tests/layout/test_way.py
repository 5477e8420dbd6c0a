from __future__ import annotations

from collections.abc import Callable

import pytest

from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.layer import concatenated, mirrored, striped
from ext4audit.layout.stack_map import Place
from ext4audit.layout.way import Way, bottom, through


def disks(count: int, size_bytes: int | None = None) -> list[tuple[Way, int]]:
    """Return legs that are whole devices."""
    return [(bottom(number, size_bytes), 0) for number in range(count)]


def test_a_leg_may_begin_further_on() -> None:
    """The second copy of a mirror lies 4 KiB into its device."""
    way = through(mirrored(2), [(bottom(0, None), 0), (bottom(1, None), 4096)], None)
    assert way.data(7) == (Place(0, 7), Place(1, 4103))


@pytest.mark.parametrize("byte", [-1, 4096, 1 << 70])
def test_a_byte_beyond_a_device_has_no_place(byte: int) -> None:
    """Neither its data nor its parity."""
    way = through(mirrored(1), disks(1), 4096)
    for find in (way.data, way.parity):
        with pytest.raises(ValueError, match="beyond the device of 4096 bytes"):
            find(byte)


def test_a_byte_beyond_the_device_below_has_no_place() -> None:
    """An array may say that it is larger than its members are."""
    way = through(striped(2, 4096), disks(2, 8192), 1 << 40)
    assert way.data(4 * 4096 - 1) == (Place(1, 8191),)
    with pytest.raises(ValueError, match="beyond the device of 8192 bytes"):
        way.data(4 * 4096)


PERIODS = [
    pytest.param(lambda: bottom(0, None), 1, id="one disk"),
    pytest.param(lambda: through(mirrored(2), disks(2), None), 1, id="a mirror"),
    pytest.param(lambda: through(striped(3, 4096), disks(3), None), 12288, id="a stripe"),
    pytest.param(lambda: stripe_at(1 << 20), 12288, id="a stripe further on"),
    pytest.param(lambda: through(concatenated([9, 9]), disks(2), None), None, id="parts"),
    # Two stripes of 12 KiB below chunks of 8 KiB: their members come again after 24 KiB of each.
    pytest.param(lambda: stripes_of_stripes(8192), 49152, id="a stripe over stripes"),
    pytest.param(lambda: stripes_of_stripes(12288), 24576, id="chunks of whole stripes"),
]


def stripe_at(start_bytes: int) -> Way:
    """Return a window of a stripe of three."""
    return through(mirrored(1), [(through(striped(3, 4096), disks(3), None), start_bytes)], None)


def stripes_of_stripes(chunk_bytes: int) -> Way:
    """Return a stripe over two stripes of three."""
    below = [(through(striped(3, 4096), disks(3), None), 0) for _ in range(2)]
    return through(striped(2, chunk_bytes), below, None)


@pytest.mark.parametrize(("make", "period_bytes"), PERIODS)
def test_a_period_is_when_the_same_members_come_again(
    make: Callable[[], Way], period_bytes: int | None
) -> None:
    """It multiplies by layers, and a concatenation has none."""
    assert make().period_bytes == period_bytes


def test_a_member_that_lies_below_twice_is_one_leaf() -> None:
    """Two partitions of one disk."""
    disk = bottom(0, None)
    assert through(striped(2, 4096), [(disk, 0), (disk, 1 << 20)], None).leaves == (0,)


def test_the_geometry_below_is_seen_from_above() -> None:
    """A window that starts 8 KiB into the second part sees the stripe 8 KiB further on.

    Before the concatenation the stripe begins 100 KiB back, of which only the turn is kept.
    """
    geometry = StripeGeometry("md0", "raid0", 4096, 0, ("a", "b", "c"))
    stripe = Way(bottom(0, None).data, bottom(0, None).parity, (0,), 1, 12288, geometry)
    window = through(mirrored(1), [(stripe, 8192)], None)
    parts = through(concatenated([102400, 4096]), [(bottom(1, None), 0), (window, 0)], None)
    assert window.geometry == StripeGeometry("md0", "raid0", 4096, 8192, ("a", "b", "c"))
    assert parts.geometry == StripeGeometry("md0", "raid0", 4096, 4096, ("a", "b", "c"))


def test_a_leg_before_the_start_of_its_device_is_refused() -> None:
    """A sysfs text may say so."""
    with pytest.raises(ValueError, match="a leg at byte -1"):
        through(mirrored(1), [(bottom(0, None), -1)], None)


def test_mirrors_stacked_on_each_other_end() -> None:
    """Each doubles the places of a byte; a lookup in forty of them would never return."""
    way = bottom(0, None)
    for _ in range(12):
        way = through(mirrored(2), [(way, 0), (way, 0)], None)
    assert way.places == 4096
    with pytest.raises(ValueError, match="8192 places"):
        through(mirrored(2), [(way, 0), (way, 0)], None)
