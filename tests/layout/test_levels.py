from __future__ import annotations

from typing import Any

import pytest

from ext4audit.evidence import Undetermined, Unknown, Why
from ext4audit.facts.devices import MdArray, MdMember
from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.byte_map import Place, Split, Stripes
from ext4audit.layout.levels import layer_of, map_of, split_md
from support.hosts.stacks import CHUNK_BYTES, draw

FOUR = [8 * CHUNK_BYTES] * 4


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
    """Two near copies and left-symmetric parity are the defaults without a number."""
    assert draw(layer_of(level, CHUNK_BYTES, layout, FOUR), 4, 4) == rows


def test_a_concatenation_rounds_its_members_only_if_it_has_a_chunk() -> None:
    """`mdadm --rounding` is its chunk; without it, every sector is used."""
    sizes = [CHUNK_BYTES + 512, CHUNK_BYTES]
    rounded, whole = (layer_of("linear", chunk, None, sizes) for chunk in (CHUNK_BYTES, 0))
    assert (rounded.data(CHUNK_BYTES), whole.data(CHUNK_BYTES)) == (((1, 0),), ((0, CHUNK_BYTES),))


@pytest.mark.parametrize("level", ["", "inactive", "container", "multipath", "faulty", "raid1e"])
def test_an_unknown_level_is_refused(level: str) -> None:
    """Its mapping of bytes is unknown."""
    with pytest.raises(ValueError, match="the level is"):
        layer_of(level, CHUNK_BYTES, None, FOUR)


def test_an_array_without_members_is_refused() -> None:
    """Otherwise it would cause a division by zero."""
    with pytest.raises(ValueError, match="no members"):
        layer_of("raid0", CHUNK_BYTES, None, [])


MD_CHUNK_BYTES = 65536
SECTORS = MD_CHUNK_BYTES // 512


def members(*chunks: int, first_slot: int = 0) -> tuple[MdMember, ...]:
    """Return members by their size in chunks; their data begins at sector 2048."""
    slots = enumerate(chunks, first_slot)
    return tuple(MdMember(slot, f"sd{slot}", 2048, size * SECTORS) for slot, size in slots)


def array(level: str = "raid0", layout: int | None = -1, **changes: Any) -> MdArray:
    """Return an array of three equal members with chunks of 64 KiB."""
    values: dict[str, Any] = {
        "chunk_bytes": MD_CHUNK_BYTES,
        "raid_disks": len(changes.get("members", (0, 0, 0))),
        "reshape_position": None,
        "members": members(8, 8, 8),
        **changes,
    }
    return MdArray(level=level, layout=layout, **values)


def gap(made: MdArray) -> Unknown:
    """Return why an array's bytes cannot be mapped."""
    with pytest.raises(Undetermined) as caught:
        split_md("md0", made)
    (unknown,) = caught.value.unknowns
    return unknown


def test_components_are_in_the_order_of_the_slots_and_begin_at_their_data() -> None:
    """Sysfs lists members in any order."""
    split = split_md("md0", array(members=tuple(reversed(members(8, 8, 8)))))
    assert split.components == (("sd0", 1 << 20), ("sd1", 1 << 20), ("sd2", 1 << 20))
    assert split.layer.data(MD_CHUNK_BYTES) == ((1, 0),)


@pytest.mark.parametrize(
    ("level", "layout", "stripes"),
    [
        ("raid0", -1, Stripes("raid0", MD_CHUNK_BYTES, None)),
        ("raid0", 2, Stripes("raid0", MD_CHUNK_BYTES, None)),
        ("raid10", 258, Stripes("raid10", MD_CHUNK_BYTES, 258)),
        ("raid4", 0, Stripes("raid4", MD_CHUNK_BYTES, None)),
        ("raid5", 2, Stripes("raid5", MD_CHUNK_BYTES, 2)),
        ("raid6", 2, Stripes("raid6", MD_CHUNK_BYTES, 2)),
        ("raid10", -1, Stripes("raid10", MD_CHUNK_BYTES, None)),
        ("raid5", -1, Stripes("raid5", MD_CHUNK_BYTES, None)),
        ("raid6", -1, Stripes("raid6", MD_CHUNK_BYTES, None)),
        ("raid1", 0, None),
        ("linear", 0, None),
    ],
)
def test_striping_levels_have_a_layout(level: str, layout: int, stripes: Stripes | None) -> None:
    """A layout is returned if the level has one; RAID0's is about zones only."""
    assert split_md("md0", array(level, layout)).stripes == stripes


def test_a_degraded_mirror_is_readable_from_one_member() -> None:
    """After the other one has failed, the remaining member holds every byte."""
    split = split_md("md0", array("raid1", 0, raid_disks=2, members=members(8, first_slot=1)))
    assert (split.components, split.layer.data(7)) == ((("sd1", 1 << 20),), ((0, 7),))


@pytest.mark.parametrize(("component_sectors", "second_copy_chunks"), [(None, 4), (4 * SECTORS, 2)])
def test_far_copies_begin_at_half_of_the_used_part(
    component_sectors: int | None, second_copy_chunks: int
) -> None:
    """`mdadm --size` may use less than all of a member; otherwise the smallest member counts."""
    made = array("raid10", 513, members=members(8, 9, 8), component_sectors=component_sectors)
    assert split_md("md0", made).layer.data(0) == ((0, 0), (1, second_copy_chunks * MD_CHUNK_BYTES))


def test_unequal_members_make_zones_by_the_layout() -> None:
    """With sizes of 1, 3 and 3 chunks, chunk 3 is on the third member in the original order."""
    split = split_md("md0", array(layout=1, members=members(1, 3, 3)))
    assert split.layer.data(3 * MD_CHUNK_BYTES) == ((2, MD_CHUNK_BYTES),)
    assert split.layer.period_bytes is None


MDSTAT = "see /proc/mdstat"


@pytest.mark.parametrize(
    ("made", "detail", "hint"),
    [
        pytest.param(
            array(reshape_position="1024"),
            "md0 is being reshaped",
            "scan again after the reshape",
            id="reshape",
        ),
        pytest.param(
            array(raid_disks=4),
            "md0: 3 of 4 members are seen, in slots [0, 1, 2]",
            MDSTAT,
            id="missing",
        ),
        pytest.param(
            array("raid1", raid_disks=2, members=()),
            "md0: 0 of 2 members are seen, in slots []",
            MDSTAT,
            id="a mirror of nothing",
        ),
        pytest.param(
            array("raid5", 2, members=(*members(8, 8), *members(8, first_slot=1))),
            "md0: 3 of 3 members are seen, in slots [0, 1, 1]",
            MDSTAT,
            id="a member is being replaced",
        ),
        pytest.param(
            array(layout=-1, members=members(1, 3, 3)),
            "md0: its members have different sizes, and the order in zones is not set",
            "set the layout with mdadm --update",
            id="zones in an order that is not set",
        ),
        pytest.param(array(chunk_bytes=0), "md0: chunks of 0 bytes", MDSTAT, id="no chunk"),
        pytest.param(
            array("raid5", 99), "md0: raid5 of 3, layout 99, chunks of 65536 bytes", MDSTAT, id="99"
        ),
        pytest.param(array("inactive"), "md0: the level is 'inactive'", MDSTAT, id="inactive"),
        pytest.param(
            array(raid_disks=1 << 62),
            "md0: 3 of 4611686018427387904 members are seen, in slots [0, 1, 2]",
            MDSTAT,
            id="an absurd width",
        ),
    ],
)
def test_an_array_that_cannot_be_mapped_has_a_reason_and_a_hint(
    made: MdArray, detail: str, hint: str
) -> None:
    """Nothing is guessed about members that are not visible."""
    found = gap(made)
    assert (found.why, found.detail, found.hint) == (Why.UNSUPPORTED, detail, hint)


def test_an_array_of_one_member_is_a_whole_layer() -> None:
    """`mdadm --force` makes a RAID0 of one member."""
    split = split_md("md0", array(members=members(8)))
    assert isinstance(split, Split)
    assert split.layer.data(5 * MD_CHUNK_BYTES) == ((0, 5 * MD_CHUNK_BYTES),)


LARGE_CHUNK_BYTES = 512 << 10


def geometry(
    level: str = "raid0", members: int = 3, offset_bytes: int = 0, layout: int | None = None
) -> StripeGeometry:
    """Return a described array that does not exist."""
    names = tuple(f"disk {number}" for number in range(members))
    return StripeGeometry("the array", level, LARGE_CHUNK_BYTES, offset_bytes, names, layout)


def test_a_map_has_the_given_geometry() -> None:
    """Members and geometry are the given ones."""
    described = geometry()
    found = map_of(described)
    assert (found.members, found.geometry) == (("disk 0", "disk 1", "disk 2"), described)


@pytest.mark.parametrize(
    ("described", "data", "parity", "period_bytes"),
    [
        (geometry(), (Place(1, 7),), (), 3 * LARGE_CHUNK_BYTES),
        (geometry(offset_bytes=LARGE_CHUNK_BYTES), (Place(2, 7),), (), 3 * LARGE_CHUNK_BYTES),
        (
            geometry("raid1"),
            (
                Place(0, LARGE_CHUNK_BYTES + 7),
                Place(1, LARGE_CHUNK_BYTES + 7),
                Place(2, LARGE_CHUNK_BYTES + 7),
            ),
            (),
            65536,
        ),
        (geometry("raid10", 4), (Place(2, 7), Place(3, 7)), (), 2 * LARGE_CHUNK_BYTES),
        (geometry("raid5"), (Place(1, 7),), (Place(2, 7),), 6 * LARGE_CHUNK_BYTES),
        (geometry("raid5", layout=4), (Place(2, 7),), (Place(0, 7),), 2 * LARGE_CHUNK_BYTES),
        (geometry("raid6", 4), (Place(2, 7),), (Place(3, 7), Place(0, 7)), 8 * LARGE_CHUNK_BYTES),
        (geometry("raid4"), (Place(1, 7),), (Place(2, 7),), 2 * LARGE_CHUNK_BYTES),
        (
            geometry("raid10", 4, layout=0x201),
            (Place(1, 7), Place(2, 7 + (1 << 59))),
            (),
            4 * LARGE_CHUNK_BYTES,
        ),
    ],
)
def test_the_level_decides_the_place_of_the_second_chunk(
    described: StripeGeometry,
    data: tuple[Place, ...],
    parity: tuple[Place, ...],
    period_bytes: int,
) -> None:
    """This is byte 7 of the chunk. An offset of one chunk shifts the members by one."""
    found = map_of(described)
    assert found.data(LARGE_CHUNK_BYTES + 7) == data
    assert found.parity(LARGE_CHUNK_BYTES + 7) == parity
    assert found.period_bytes == period_bytes


def test_far_copies_and_concatenations_depend_on_the_size_of_the_members() -> None:
    """With 8 chunks per member, the second copy begins at chunk 4; byte 8 C is on the next."""
    far = map_of(geometry("raid10", 4, layout=0x201), 8 * LARGE_CHUNK_BYTES)
    parts = map_of(geometry("linear"), 8 * LARGE_CHUNK_BYTES)
    assert far.data(LARGE_CHUNK_BYTES) == (Place(1, 0), Place(2, 4 * LARGE_CHUNK_BYTES))
    assert (parts.data(8 * LARGE_CHUNK_BYTES), parts.period_bytes) == ((Place(1, 0),), None)
    with pytest.raises(ValueError, match="beyond"):
        parts.data(24 * LARGE_CHUNK_BYTES)


def test_a_byte_beyond_members_of_a_known_size_has_no_place() -> None:
    """Three members of two chunks hold six."""
    found = map_of(geometry(), 2 * LARGE_CHUNK_BYTES)
    assert found.data(6 * LARGE_CHUNK_BYTES - 1) == (Place(2, 2 * LARGE_CHUNK_BYTES - 1),)
    with pytest.raises(ValueError, match="beyond"):
        found.data(6 * LARGE_CHUNK_BYTES)


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
def test_an_impossible_array_is_refused(described: StripeGeometry) -> None:
    """A concatenation of members of unknown size cannot be mapped."""
    with pytest.raises(ValueError, match=r"members|level|layout|size|byte"):
        map_of(described)
