"""planned_stack: the devices below a planned filesystem."""

from __future__ import annotations

import pytest

from ext4audit.assemble.planned_stack import planned_stack
from ext4audit.evidence import Known, Unknown
from ext4audit.layout.map_of import map_of
from ext4audit.layout.map_stack import map_stack
from planned import TWELVE_DISKS_BYTES, disk_plan, plan

GIB = 1 << 30


def test_an_array_of_disks_without_names() -> None:
    """The queue is that of each disk, the I/O sizes those of the array."""
    stack = planned_stack(plan())
    assert (stack.path, stack.kind) == ("/dev/md0", "raid0")
    assert [each.name for each in stack.leaves()][-2:] == ["disk10", "disk11"]
    assert stack.queue.minimum_io_bytes == Known(524288, "the plan")
    assert stack.queue.optimal_io_bytes == Known(6291456, "the plan")
    assert isinstance(stack.queue.nr_requests, Unknown)
    assert {each.queue.nr_requests for each in stack.leaves()} == {
        Known(256, "/sys/block/sda/queue/nr_requests")
    }


@pytest.mark.parametrize(
    ("level", "members", "member_bytes"),
    [
        ("raid0", 12, 100 * GIB - (64 << 20)),
        ("raid1", 2, TWELVE_DISKS_BYTES),
        ("raid5", 4, 429228294144),
        ("raid6", 5, 429228294144),
        ("raid10", 5, 515074162688),
    ],
)
def test_members_are_as_large_as_the_array_needs(
    level: str, members: int, member_bytes: int
) -> None:
    """In whole chunks, rounded up."""
    leaves = planned_stack(plan(level=level, members=members)).leaves()
    assert len(leaves) == members
    assert {each.size_sectors for each in leaves} == {Known(member_bytes // 512, "the plan")}


@pytest.mark.parametrize(("level", "members"), [("raid0", 3), ("raid10", 4), ("raid5", 5)])
def test_the_stack_maps_as_its_geometry(level: str, members: int) -> None:
    """What finds members of a live stack finds the same members of a planned one."""
    of = plan(level=level, members=members)
    stack, geometry = map_stack(planned_stack(of)), of.geometry
    assert isinstance(stack, Known)
    assert geometry is not None
    described = map_of(geometry)
    for chunk in range(40):
        byte = chunk * of.chunk_bytes
        ours = [place.member for place in stack.value.data(byte)]
        assert ours == [place.member for place in described.data(byte)]


def test_one_disk_is_the_device() -> None:
    """Its name is that of the device."""
    stack = planned_stack(disk_plan())
    assert (stack.name, stack.kind, stack.leaves()) == ("sdX", "disk", (stack,))
    assert stack.size_sectors == Known(2097152, "the plan")
