"""find_stripe: the way of a filesystem's first byte down to a stripe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import disk, known, loop, raid, unknown
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.block import BlockDevice, DmDevice, DmSegment, MdArray, MdMember
from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.stripe import find_stripe

TWO_DISKS = (disk("sda", DeviceNumber(8, 0)), disk("sdb", DeviceNumber(8, 16)))
STRIPE = raid(TWO_DISKS)


def partition(below: BlockDevice, start_sectors: int | None = 2048) -> BlockDevice:
    """Build a partition."""
    number = DeviceNumber(259, 0)
    return disk("p1", number, kind="partition", below=known((below,)), start_sectors=start_sectors)


def mapped(
    table: Evidence[tuple[DmSegment, ...]], *below: BlockDevice, kind: str = "dm"
) -> BlockDevice:
    """Build a device-mapper device."""
    return disk(
        "dm-0",
        DeviceNumber(253, 0),
        kind=kind,
        below=known(below),
        dm=DmDevice("vg-lv", "LVM-x", table),
    )


def segment(target: str, *arguments: str, start: int = 0) -> DmSegment:
    """Build a line of a device-mapper table."""
    return DmSegment(start, 1 << 30, target, arguments)


def array(**changes: Any) -> BlockDevice:
    """Build a RAID0 of two members with something odd."""
    assert isinstance(STRIPE.md, Known)
    return replace(STRIPE, md=known(replace(STRIPE.md.value, **changes)))


def members(*sizes: int) -> tuple[MdMember, ...]:
    """Build members by their sizes in sectors."""
    return tuple(MdMember(slot, f"sd{slot}", 2048, size) for slot, size in enumerate(sizes))


def test_a_raid0_is_a_stripe_over_its_members_in_slot_order() -> None:
    """The geometry holds the members by slot, whatever order sysfs lists them in."""
    found = find_stripe(array(members=tuple(reversed(members(4096, 4096)))))
    assert found == known(StripeGeometry("md127", "raid0", 524288, 0, ("sd0", "sd1")), "test")


LINEAR = mapped(known((segment("linear", "9:127", "4096"),)), STRIPE)
LUKS = mapped(known((segment("crypt", "aes-xts", "0", "0", "9:127", "32768", "1"),)), STRIPE)


@pytest.mark.parametrize(
    ("stack", "offset_bytes"),
    [
        pytest.param(STRIPE, 0, id="the array itself"),
        pytest.param(partition(STRIPE), 1 << 20, id="a partition of the array"),
        pytest.param(LINEAR, 2 << 20, id="LVM"),
        pytest.param(LUKS, 16 << 20, id="LUKS"),
        pytest.param(
            mapped(known((segment("linear", "259:0", "4096"),)), partition(STRIPE)),
            3 << 20,
            id="LVM on a partition",
        ),
    ],
)
def test_offsets_add_up_on_the_way_down(stack: BlockDevice, offset_bytes: int) -> None:
    """Each layer's start is added, in bytes of the striped device."""
    found = find_stripe(stack)
    assert isinstance(found, Known)
    assert found.value.offset_bytes == offset_bytes
    assert found.value.device == "md127"


def test_a_striped_logical_volume_is_a_stripe() -> None:
    """`striped 2 128 8:0 2048 8:16 2048` is a stripe of two disks with chunks of 64 KiB."""
    table = known((segment("striped", "2", "128", "8:0", "2048", "8:16", "2048"),), "dmsetup table")
    found = find_stripe(mapped(table, *TWO_DISKS, kind="dm-striped"))
    assert found == known(
        StripeGeometry("dm-0", "dm-striped", 65536, 0, ("sda", "sdb")), "dmsetup table"
    )


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(disk(), id="a disk"),
        pytest.param(partition(disk()), id="a partition of a disk"),
        pytest.param(raid(TWO_DISKS, level="raid1"), id="a mirror"),
        pytest.param(raid(TWO_DISKS, level="raid5"), id="parity"),
        pytest.param(raid(TWO_DISKS[:1]), id="a RAID0 of one member"),
        pytest.param(
            mapped(known((segment("striped", "1", "128", "8:0", "0"),)), disk()),
            id="one stripe",
        ),
        pytest.param(mapped(unknown("table"), disk()), id="LVM over one disk, not root"),
        pytest.param(
            mapped(unknown("table"), raid(TWO_DISKS, level="raid1")),
            id="LVM over a mirror, not root",
        ),
        pytest.param(
            mapped(
                known((segment("linear", "8:0", "0"), segment("linear", "8:16", "0"))), *TWO_DISKS
            ),
            id="LVM of two segments over disks",
        ),
        pytest.param(loop(known((STRIPE,))), id="a file on a filesystem on a stripe"),
    ],
)
def test_nothing_striped_is_none(stack: BlockDevice) -> None:
    """None means that there is no stripe: the layout rules do not apply."""
    assert find_stripe(stack) is None


THIN = mapped(known((segment("thin", "253:4", "1"),)), STRIPE, kind="dm-thin")
HALVES = (segment("linear", "9:127", "0"), segment("linear", "9:127", "8192", start=4096))


@pytest.mark.parametrize(
    ("stack", "hint"),
    [
        (array(members=members(4096)), "see /proc/mdstat"),
        (array(chunk_bytes=0), "see /proc/mdstat"),
        (
            array(members=members(4096, 8192)),
            "count by hand: dumpe2fs -g names the bitmaps' blocks",
        ),
    ],
    ids=["a member is missing", "chunk 0", "zones"],
)
def test_a_stripe_that_is_not_even_has_a_hint_that_helps(stack: BlockDevice, hint: str) -> None:
    """In mdstat there are missing members, and no zones: those leave nothing but counting."""
    found = find_stripe(stack)
    assert isinstance(found, Unknown)
    assert found.hint == hint


@pytest.mark.parametrize(
    ("stack", "why"),
    [
        pytest.param(replace(STRIPE, md=unknown("md")), Why.DENIED, id="md not read"),
        pytest.param(array(reshape_position="1024"), Why.UNSUPPORTED, id="reshape"),
        pytest.param(
            array(level="raid4", reshape_position="1024"), Why.UNSUPPORTED, id="reshape as raid4"
        ),
        pytest.param(array(chunk_bytes=0), Why.UNSUPPORTED, id="chunk 0"),
        pytest.param(array(members=members(4096, 8192)), Why.UNSUPPORTED, id="zones"),
        pytest.param(array(members=members(4096)), Why.UNSUPPORTED, id="a member is missing"),
        pytest.param(array(raid_disks=1 << 62), Why.UNSUPPORTED, id="an absurd width"),
        pytest.param(mapped(unknown("table"), *TWO_DISKS), Why.DENIED, id="LVM over two disks"),
        pytest.param(mapped(unknown("table"), STRIPE), Why.DENIED, id="LVM on a stripe, not root"),
        pytest.param(THIN, Why.UNSUPPORTED, id="thin pool on a stripe"),
        pytest.param(mapped(known(HALVES), STRIPE), Why.UNSUPPORTED, id="two segments on a stripe"),
        pytest.param(
            mapped(known((segment("raid", "raid0", "1", "128", "2"),)), *TWO_DISKS),
            Why.UNSUPPORTED,
            id="LVM of type raid0",
        ),
        pytest.param(
            mapped(known((segment("striped", "2", "x"),)), *TWO_DISKS),
            Why.UNPARSABLE,
            id="a striped table of another kind",
        ),
        pytest.param(
            mapped(known((segment("striped", "2", "128", "8:0", "0", "8:99", "0"),)), *TWO_DISKS),
            Why.UNPARSABLE,
            id="a leg that is not seen",
        ),
        pytest.param(
            mapped(known((segment("linear", "9:127", "-1"),)), STRIPE),
            Why.UNSUPPORTED,
            id="a start that is no number",
        ),
        pytest.param(partition(STRIPE, None), Why.UNSUPPORTED, id="a partition without a start"),
        pytest.param(disk(below=unknown("slaves")), Why.DENIED, id="slaves not read"),
    ],
)
def test_what_cannot_be_told_is_a_hole(stack: BlockDevice, why: Why) -> None:
    """A stripe that is there, or may be there, and cannot be followed is never "no stripe"."""
    found = find_stripe(stack)
    assert isinstance(found, Unknown)
    assert found.why is why


def test_members_that_differ_by_less_than_a_chunk_are_equal() -> None:
    """RAID0 rounds its members down to whole chunks before it compares them."""
    found = find_stripe(array(members=members(10 * 1024, 10 * 1024 + 1023)))
    assert isinstance(found, Known)


def test_an_array_is_described_by_the_evidence_it_was_read_from() -> None:
    """The geometry of an array carries the origin of the array's evidence."""
    md = MdArray("raid0", 65536, 2, -1, None, members(4096, 4096))
    found = find_stripe(replace(STRIPE, md=Known(md, "/sys/block/md127/md")))
    assert isinstance(found, Known)
    assert found.origin == "/sys/block/md127/md"
