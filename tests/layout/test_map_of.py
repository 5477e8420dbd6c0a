from __future__ import annotations

import pytest

from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.map_of import map_of
from ext4audit.layout.stack_map import Place

C = 512 << 10


def geometry(
    level: str = "raid0", members: int = 3, offset_bytes: int = 0, layout: int | None = None
) -> StripeGeometry:
    """Describe an array that is not there."""
    names = tuple(f"disk {number}" for number in range(members))
    return StripeGeometry("the array", level, C, offset_bytes, names, layout)


def test_a_map_is_of_the_geometry_that_it_was_made_for() -> None:
    """Members and geometry are those that were told."""
    described = geometry()
    found = map_of(described)
    assert (found.members, found.geometry) == (("disk 0", "disk 1", "disk 2"), described)


@pytest.mark.parametrize(
    ("described", "data", "parity", "period_bytes"),
    [
        (geometry(), (Place(1, 7),), (), 3 * C),
        (geometry(offset_bytes=C), (Place(2, 7),), (), 3 * C),
        (geometry("raid1"), (Place(0, C + 7), Place(1, C + 7), Place(2, C + 7)), (), 65536),
        (geometry("raid10", 4), (Place(2, 7), Place(3, 7)), (), 2 * C),
        (geometry("raid5"), (Place(1, 7),), (Place(2, 7),), 6 * C),
        (geometry("raid5", layout=4), (Place(2, 7),), (Place(0, 7),), 2 * C),
        (geometry("raid6", 4), (Place(2, 7),), (Place(3, 7), Place(0, 7)), 8 * C),
        (geometry("raid4"), (Place(1, 7),), (Place(2, 7),), 2 * C),
        (geometry("raid10", 4, layout=0x201), (Place(1, 7), Place(2, 7 + (1 << 59))), (), 4 * C),
    ],
)
def test_the_second_chunk_lies_where_the_level_puts_it(
    described: StripeGeometry,
    data: tuple[Place, ...],
    parity: tuple[Place, ...],
    period_bytes: int,
) -> None:
    """Byte 7 of it. An offset of one chunk turns the members by one."""
    found = map_of(described)
    assert found.data(C + 7) == data
    assert found.parity(C + 7) == parity
    assert found.period_bytes == period_bytes


def test_far_copies_and_concatenations_depend_on_the_size_of_the_members() -> None:
    """With 8 chunks a member, the second copy begins at chunk 4; byte 8 C is the next member's."""
    far = map_of(geometry("raid10", 4, layout=0x201), 8 * C)
    parts = map_of(geometry("linear"), 8 * C)
    assert far.data(C) == (Place(1, 0), Place(2, 4 * C))
    assert (parts.data(8 * C), parts.period_bytes) == ((Place(1, 0),), None)
    with pytest.raises(ValueError, match="beyond"):
        parts.data(24 * C)


def test_a_byte_beyond_members_of_a_known_size_has_no_place() -> None:
    """Three members of two chunks hold six."""
    found = map_of(geometry(), 2 * C)
    assert found.data(6 * C - 1) == (Place(2, 2 * C - 1),)
    with pytest.raises(ValueError, match="beyond"):
        found.data(6 * C)


@pytest.mark.parametrize(
    "described",
    [
        geometry("linear"),
        geometry("raid5", 1),
        geometry("raid0", 0),
        geometry("raid7"),
        geometry("raid10", 2, layout=0x303),
        geometry(offset_bytes=-1),
        StripeGeometry("the array", "raid0", 0, 0, ("a", "b")),
    ],
)
def test_what_cannot_be_an_array_is_refused(described: StripeGeometry) -> None:
    """A concatenation of members of an unknown size is none that can be mapped."""
    with pytest.raises(ValueError, match=r"members|level|layout|size|byte"):
        map_of(described)
