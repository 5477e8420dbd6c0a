from __future__ import annotations

from typing import Any

import pytest

from ext4audit.evidence import Undetermined, Unknown, Why
from ext4audit.facts.block import MdArray, MdMember
from ext4audit.layout.md_map import split_md
from ext4audit.layout.split import Split, Stripes

C = 65536
SECTORS = C // 512


def members(*chunks: int, first_slot: int = 0) -> tuple[MdMember, ...]:
    """Build members by their size in chunks; their data begins at sector 2048."""
    slots = enumerate(chunks, first_slot)
    return tuple(MdMember(slot, f"sd{slot}", 2048, size * SECTORS) for slot, size in slots)


def array(level: str = "raid0", layout: int | None = -1, **changes: Any) -> MdArray:
    """Build an array of three equal members with chunks of 64 KiB."""
    values: dict[str, Any] = {
        "chunk_bytes": C,
        "raid_disks": len(changes.get("members", (0, 0, 0))),
        "reshape_position": None,
        "members": members(8, 8, 8),
        **changes,
    }
    return MdArray(level=level, layout=layout, **values)


def hole(made: MdArray) -> Unknown:
    """Return why an array's bytes cannot be followed."""
    with pytest.raises(Undetermined) as caught:
        split_md("md0", made)
    (unknown,) = caught.value.unknowns
    return unknown


def test_legs_are_in_the_order_of_the_slots_and_begin_at_their_data() -> None:
    """Sysfs lists members in any order."""
    split = split_md("md0", array(members=tuple(reversed(members(8, 8, 8)))))
    assert split.legs == (("sd0", 1 << 20), ("sd1", 1 << 20), ("sd2", 1 << 20))
    assert split.layer.data(C) == ((1, 0),)


@pytest.mark.parametrize(
    ("level", "layout", "stripes"),
    [
        ("raid0", -1, Stripes("raid0", C, None)),
        ("raid0", 2, Stripes("raid0", C, None)),
        ("raid10", 258, Stripes("raid10", C, 258)),
        ("raid4", 0, Stripes("raid4", C, None)),
        ("raid5", 2, Stripes("raid5", C, 2)),
        ("raid6", 2, Stripes("raid6", C, 2)),
        ("raid1", 0, None),
        ("linear", 0, None),
    ],
)
def test_a_level_that_stripes_says_how(level: str, layout: int, stripes: Stripes | None) -> None:
    """The layout is told where the level has one; RAID0's is about zones only."""
    assert split_md("md0", array(level, layout)).stripes == stripes


def test_a_mirror_shows_everything_with_one_of_its_members() -> None:
    """The other one has failed: what is left still holds every byte."""
    split = split_md("md0", array("raid1", 0, raid_disks=2, members=members(8, first_slot=1)))
    assert (split.legs, split.layer.data(7)) == ((("sd1", 1 << 20),), ((0, 7),))


@pytest.mark.parametrize(("component_sectors", "second_copy_chunks"), [(None, 4), (4 * SECTORS, 2)])
def test_far_copies_begin_where_the_used_part_is_halved(
    component_sectors: int | None, second_copy_chunks: int
) -> None:
    """`mdadm --size` uses less than there is; without it, the smallest member counts."""
    made = array("raid10", 513, members=members(8, 9, 8), component_sectors=component_sectors)
    assert split_md("md0", made).layer.data(0) == ((0, 0), (1, second_copy_chunks * C))


def test_unequal_members_make_zones_by_the_layout() -> None:
    """Sizes of 1, 3 and 3 chunks: chunk 3 is the third one's in the original order."""
    split = split_md("md0", array(layout=1, members=members(1, 3, 3)))
    assert split.layer.data(3 * C) == ((2, C),)
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
            "see /sys/module/raid0/parameters/default_layout, and set it by mdadm --update",
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
def test_an_array_that_cannot_be_followed_says_why_and_what_helps(
    made: MdArray, detail: str, hint: str
) -> None:
    """Nothing is guessed about members that are not seen."""
    found = hole(made)
    assert (found.why, found.detail, found.hint) == (Why.UNSUPPORTED, detail, hint)


def test_a_layer_of_one_member_is_all_there_is() -> None:
    """`mdadm --force` makes such a RAID0."""
    split = split_md("md0", array(members=members(8)))
    assert isinstance(split, Split)
    assert split.layer.data(5 * C) == ((0, 5 * C),)
