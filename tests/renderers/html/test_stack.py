from __future__ import annotations

import pytest
from hypothesis import given

from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.renderers.html.stack import TOP, rows_of
from support.builders import disk, known, queue, raid, unknown
from support.examples import examples
from support.hosts.strategies import STACKS


def drawn_rows(top: BlockDevice) -> list[list[str]]:
    """Return the name of the first device of each box, row by row; "?" is an unknown device."""
    return [["?" if pile.unknown else pile.devices[0].name for pile in row] for row in rows_of(top)]


def device_on(name: str, minor: int, *below: BlockDevice, kind: str = "dm-linear") -> BlockDevice:
    """Build a device on top of others."""
    return disk(name, DeviceNumber(253, minor), kind=kind, below=known(below))


def disks(count: int) -> list[BlockDevice]:
    """Build disks with different device numbers."""
    return [disk(f"sd{n}", DeviceNumber(8, 16 * n)) for n in range(count)]


def test_single_disk_is_one_box() -> None:
    """The disk is the only box below the filesystem."""
    (row,) = rows_of(disk())
    assert [pile.above for pile in row] == [(TOP,)]


@pytest.mark.parametrize(("count", "boxes"), [(1, 1), (4, 4), (5, 1), (24, 1)])
def test_more_than_four_equal_disks_are_one_pile(count: int, boxes: int) -> None:
    """Up to four boxes fit side by side; more than four equal disks are drawn as one pile."""
    top, members = rows_of(raid(disks(count)))
    assert len(top) == 1
    assert len(members) == boxes
    assert sum(len(pile.devices) for pile in members) == count


def test_different_disk_is_not_in_the_pile() -> None:
    """The one member with a different write cache is the one that matters."""
    odd = disk("sdz", DeviceNumber(65, 0), queue(write_cache="write through"))
    assert drawn_rows(raid([*disks(6), odd])) == [["md127"], ["sd0", "sdz"]]


def test_equal_partitions_and_disks_are_two_piles() -> None:
    """Equal devices below a pile form a pile too."""
    parts = [
        device_on(f"{each.name}1", n, each, kind="partition") for n, each in enumerate(disks(12))
    ]
    rows = rows_of(raid(parts))
    assert [[len(pile.devices) for pile in row] for row in rows] == [[1], [12], [12]]
    assert rows[2][0].above == (rows[1][0].key,)


def test_device_is_below_all_devices_that_use_it() -> None:
    """A disk that is used at two levels is drawn at the lower one, so that every line goes down."""
    shared, other = disks(2)
    middle = device_on("dm-1", 1, shared, other)
    assert drawn_rows(device_on("dm-0", 0, shared, middle)) == [["dm-0"], ["dm-1"], ["sd0", "sd1"]]


def test_unknown_devices_share_one_box() -> None:
    """Six partitions whose disks are unknown share one unknown box."""
    parts = [
        disk(f"sd{n}1", DeviceNumber(8, 16 * n + 1), kind="partition", below=unknown("disk"))
        for n in range(6)
    ]
    assert drawn_rows(raid(parts)) == [["md127"], ["sd01"], ["?"]]


@given(STACKS)
@examples(200)
def test_any_stack_is_drawn_from_top_to_bottom(top: BlockDevice) -> None:
    """Each device is in one box, keys are unique, and lines come from rows above."""
    rows = rows_of(top)
    seen = {TOP}
    for row in rows:
        assert row
        assert all(set(pile.above) <= seen for pile in row)
        keys = [pile.key for pile in row]
        assert not seen & set(keys)
        seen |= set(keys)
        assert len(keys) == len(set(keys))
    piles = [pile for row in rows for pile in row if pile.unknown is None]
    boxed = [each.device_number for pile in piles for each in pile.devices]
    assert sorted(map(str, boxed)) == sorted({str(each.device_number) for each in top.walk()})
