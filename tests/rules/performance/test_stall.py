"""The backlog of dirty memory, the queues below a filesystem, and the duration of a stall."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.facts import put_in_force, read_table
from ext4audit.facts.devices import CLASS_TABLE, BlockDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.rules.performance import (
    Drain,
    backlog_bytes,
    bound,
    cite_memory,
    cite_size,
    read_drains,
    stall_remedies,
    stall_seconds,
)
from support.builders import GIB, disk, filesystem, known, loop, memory, queue, raid, unknown

MIB = 1 << 20
ABSENT = Unknown("queue file", Why.ABSENT)


def queue_drain(**changes: Any) -> Drain:
    """Build the queue of a slow disk, which takes 8 MiB if throttled and 32 MiB otherwise."""
    values: dict[str, Any] = {
        "name": "sda",
        "speed_class": "slow",
        "megabytes_per_second": 10,
        "nr_requests": 32,
        "max_sectors_kb": 1024,
        "wbt_latency_usec": 75000,
    }
    return Drain(**{**values, **changes})


@pytest.mark.parametrize(
    ("device", "virtualization", "speed"),
    [
        (disk("nvme0n1"), None, ("NVMe", 1000)),
        (disk("nvme0n1"), "kvm", ("NVMe", 1000)),
        (disk("vda"), None, ("network or virtual disk", 175)),
        (disk("xvda"), None, ("network or virtual disk", 175)),
        (disk("sda"), "kvm", ("network or virtual disk", 175)),
        (disk("sda"), None, ("rotational disk", 120)),
        (disk("mmcblk0"), None, ("memory card or USB disk", 40)),
        (disk("sda", udev=(("ID_BUS", "usb"),)), "kvm", ("memory card or USB disk", 40)),
        (disk("sda", udev=(("ID_BUS", "ata"),)), None, ("rotational disk", 120)),
        (disk("sda", limits=queue(rotational=False)), None, ("SATA or SAS SSD", 400)),
        (disk("zram0", limits=queue(rotational=False)), None, ("disk in memory", 400)),
        (disk("zram0", limits=queue(rotational=False)), "kvm", ("disk in memory", 400)),
    ],
)
def test_speed_by_class_of_device(
    device: BlockDevice, virtualization: str | None, speed: tuple[str, int]
) -> None:
    """The value of `rotational` on a virtual disk is the driver's default."""
    (found,) = read_drains(device, known(virtualization))
    assert (need(found).speed_class, need(found).megabytes_per_second) == speed


@pytest.mark.parametrize(
    ("name", "is_slow"),
    [("sda", True), ("mmcblk0", True), ("nvme0n1", False), ("vda", False), ("zram0", False)],
)
def test_the_class_says_whether_a_disk_is_slow(name: str, *, is_slow: bool) -> None:
    """Its title is for people: newer data may give all classes the same."""
    table = read_table(CLASS_TABLE)
    alike = {key: {**each, "title": "disk"} for key, each in table.items()}
    put_in_force({CLASS_TABLE: alike})
    try:
        (found,) = read_drains(disk(name), known(None))
    finally:
        put_in_force({})
    assert need(found).is_slow == is_slow


def test_device_without_a_request_queue() -> None:
    """NVMe multipath has neither file; a file that cannot be read is a gap."""
    (found,) = read_drains(
        disk(limits=queue(nr_requests=ABSENT, wbt_latency_usec=ABSENT)), known(None)
    )
    assert (need(found).nr_requests, need(found).wbt_latency_usec) == (0, 0)
    (gap,) = read_drains(disk(limits=queue(nr_requests=unknown("nr"))), known(None))
    assert isinstance(gap, Unknown)


MEMBERS = [disk(f"sd{name}", DeviceNumber(8, 16 * i)) for i, name in enumerate("bcd")]


@pytest.mark.parametrize(
    ("stack", "shares"),
    [
        (disk(), {"sda": 1}),
        (raid(MEMBERS), {"sdb": 3, "sdc": 3, "sdd": 3}),
        (raid(MEMBERS, level="raid1"), {"sdb": 1, "sdc": 1, "sdd": 1}),
        (loop(known((disk(),))), {"loop0": 1, "sda": 1}),
    ],
)
def test_members_of_a_stripe_share_the_data(stack: BlockDevice, shares: dict[str, int]) -> None:
    """Each mirror takes all data; a loop device has a queue above that of its disk."""
    found = [need(each) for each in read_drains(stack, known(None))]
    assert {each.name: each.shares for each in found} == shares


@pytest.mark.parametrize(
    ("queue_of", "throttled", "holds"),
    [
        (queue_drain(), True, 8 * MIB),
        (queue_drain(), False, 32 * MIB),
        (queue_drain(nr_requests=7), True, 7 * MIB),
        (queue_drain(nr_requests=9), True, 8 * MIB),
    ],
)
def test_throttled_queue_holds_eight_requests(queue_of: Drain, throttled: bool, holds: int) -> None:
    """Throttling cannot deepen a queue."""
    assert queue_of.holds_bytes(throttled=throttled) == holds


@pytest.mark.parametrize(
    ("queue_of", "dirty", "seconds"),
    [
        (queue_drain(), 8 * MIB, 0),
        (queue_drain(), 8 * MIB + 10_000_000, 1),
        (queue_drain(shares=2), 2 * (8 * MIB + 10_000_000), 1),
        (queue_drain(wbt_latency_usec=0), 32 * MIB + 5_000_000, 0.5),
        (queue_drain(wbt_latency_usec=1), 32 * MIB, 2.516_582_4),
    ],
)
def test_stall_seconds(queue_of: Drain, dirty: int, seconds: float) -> None:
    """The rest is written at the device's speed, split among the members of a stripe."""
    assert stall_seconds(dirty, [queue_of]) == pytest.approx(seconds)


def test_slowest_queue_decides() -> None:
    """It decides with throttling, and as if throttling were off."""
    queues = [queue_drain(megabytes_per_second=100), queue_drain()]
    dirty = 8 * MIB + 10_000_000
    assert stall_seconds(dirty, queues) == pytest.approx(1)
    assert stall_seconds(dirty, queues, throttling=False) == 0


@pytest.mark.parametrize(
    ("sectors", "backlog", "cited"),
    [
        (known(1 << 20), 512 * MIB, ["512 MiB: no more can be dirty"]),
        (known(1 << 21), GIB, []),
        (known(1 << 22), GIB, []),
        (known(0), GIB, []),
        (unknown("size"), GIB, []),
    ],
)
def test_backlog_is_limited_by_device_size(sectors: Any, backlog: int, cited: list[str]) -> None:
    """The device's size limits the backlog if it is below the dirty limit."""
    limited = memory(dirty_bytes=GIB)
    fs = filesystem(stack=known(disk(size_sectors=sectors)))
    assert backlog_bytes(fs, limited) == backlog
    found = list(cite_size(fs, limited))
    assert [citation.value for citation in found] == cited
    assert all(citation.detail for citation in found)


def test_backlog_without_a_stack_is_the_dirty_limit() -> None:
    """The size of the filesystem's device is unknown."""
    fs = filesystem(stack=unknown("stack"))
    assert backlog_bytes(fs, memory(dirty_bytes=GIB)) == GIB
    assert list(cite_size(fs, memory(dirty_bytes=GIB))) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dirty_bytes": GIB}, "1024 MiB (vm.dirty_bytes = 1073741824; memory 16384 MiB)"),
        ({}, "3072 MiB (vm.dirty_ratio = 20 % of 15360 MiB available; memory 16384 MiB)"),
    ],
)
def test_cites_the_setting_of_the_dirty_limit(changes: dict[str, int], words: str) -> None:
    """A limit in bytes overrides the ratio."""
    assert cite_memory(Known(memory(**changes), "/proc")).value == words


def test_dirty_limit_for_two_seconds() -> None:
    """A stripe is as fast as its members together."""
    assert (
        "to 19 MiB, which the slowest device should write in 2 s"
        in bound(memory(), [queue_drain()]).summary
    )
    assert "to 76 MiB, which" in bound(memory(), [queue_drain(shares=4)]).summary
    slow_and_fast = [queue_drain(megabytes_per_second=100), queue_drain()]
    assert "to 19 MiB" in bound(memory(), slow_and_fast).summary


@pytest.mark.parametrize(
    ("dirty", "drains", "words"),
    [
        pytest.param(
            248_388_608,
            [queue_drain()],
            "on sda: renaming a file of up to 32 MiB then does not block, and the estimate falls "
            "from ~24.0 s to ~21.5 s.",
            id="10.5 %",
        ),
        pytest.param(268_388_608, [queue_drain()], None, id="9.7 %"),
        pytest.param(100 * MIB, [queue_drain(wbt_latency_usec=0)], None, id="not throttled"),
        pytest.param(
            100 * MIB,
            [queue_drain(shares=3), queue_drain(name="sdb", wbt_latency_usec=0, shares=3)],
            "on sda: renaming a file of up to 96 MiB then does not block, and the estimate falls "
            "from ~2.7 s to ~0.1 s.",
            id="a stripe takes what its members take together",
        ),
    ],
)
def test_throttling_remedy_only_if_a_tenth_faster(
    dirty: int, drains: list[Drain], words: str | None
) -> None:
    """The estimate must fall by at least a tenth."""
    summaries = [
        remedy.summary for remedy in stall_remedies(memory(), dirty, drains, contained=False)
    ]
    found = [each for each in summaries if "writeback throttling" in each]
    assert found == ([f"Disable writeback throttling {words}"] if words else [])
