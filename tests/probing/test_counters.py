from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice, DmDevice, LoopDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.probing.counters import (
    BlockStat,
    Disk,
    differences,
    flushed_disks,
    parse_stat,
    read_stats,
)
from support.builders import disk, known, queue

OLD = "1051 0 6254 486 1336 0 1854 1314 0 1476 2507"
MIDDLE = f"{OLD} 0 0 0 0"
NEW = f"{MIDDLE} 968 706"


@pytest.mark.parametrize(
    ("text", "flushes", "flush_ms"), [(OLD, None, None), (MIDDLE, None, None), (NEW, 968, 706)]
)
def test_the_fields_are_those_of_the_kernel(
    text: str, flushes: int | None, flush_ms: int | None
) -> None:
    """Linux 5.5 added the two fields of flushes, 4.18 those of discards."""
    assert parse_stat(text) == BlockStat(1051, 1336, 1854 * 512, 1314, flushes, flush_ms)


@pytest.mark.parametrize("text", ["", "1 2 3", "a b c d e f g h i j k"])
def test_another_text_is_refused(text: str) -> None:
    """Text that is not a stat file raises ValueError."""
    with pytest.raises(ValueError, match=r"."):
        parse_stat(text)


def test_differences_and_means() -> None:
    """Counters are subtracted field by field; means are per request."""
    before = BlockStat(1, 10, 512, 100, 5, 50)
    after = BlockStat(3, 14, 1024, 120, 7, 51)
    (found,) = differences({"a": before}, {"a": after}).values()
    assert found == BlockStat(2, 4, 512, 20, 2, 1)
    assert (found.write_wait_ms, found.flush_wait_ms) == (5, 0.5)
    assert before.since(before).write_wait_ms is None
    assert before.since(before).flush_wait_ms is None


def test_devices_without_counters_are_left_out(tmp_path: Path) -> None:
    """A device that was removed, or has invalid counters, has none."""
    for name, text in (("a", NEW), ("b", "nonsense")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(text)
    assert set(read_stats(["a", "b", "c"], tmp_path)) == {"a"}


def test_the_paths_of_a_device_count_its_flushes(tmp_path: Path) -> None:
    """A map of dm-multipath counts them itself or on a path, by its queue_mode; NVMe on a path."""
    counters = {
        "dm-0": 5, "dm-1": 7, "sda": 20, "sdb": 1,
        "nvme0n1": 0, "nvme0c0n1": 3, "nvme0c1n1": 4, "nvme0c1n2": 50, "nvme1c0n1": 60,
    }  # fmt: skip
    for name, flushes in counters.items():
        (tmp_path / name / ("mq" if name != "nvme0n1" else "queue")).mkdir(parents=True)
        (tmp_path / name / "stat").write_text(f"{MIDDLE} {flushes} {flushes * 2}")
    for name, uuid in (("dm-0", "mpath-3600"), ("dm-1", "LVM-1")):
        (tmp_path / name / "dm").mkdir()
        (tmp_path / name / "dm" / "uuid").write_text(f"{uuid}\n")
        for path in ("sda", "sdb", "gone"):
            (tmp_path / name / "slaves" / path).mkdir(parents=True)
    found = read_stats(["dm-0", "dm-1", "nvme0n1", "sda"], tmp_path)
    assert {name: (each.flushes, each.flush_ms) for name, each in found.items()} == {
        "dm-0": (26, 52),
        "dm-1": (7, 14),
        "nvme0n1": (7, 14),
        "sda": (20, 40),
    }
    assert {name: each.writes for name, each in found.items()} == {
        "dm-0": 1336,
        "dm-1": 1336,
        "nvme0n1": 2 * 1336,
        "sda": 1336,
    }
    for name in counters:
        (tmp_path / name / "stat").write_text(OLD)
    assert read_stats(["dm-0"], tmp_path)["dm-0"].flushes is None


def test_a_device_without_request_queues_counts_no_flush(tmp_path: Path) -> None:
    """Its zero is none: the flushes of a persistent memory or of a ZFS volume are never counted."""
    for name, folder in (("pmem0", "queue"), ("sda", "mq"), ("dm-0", "dm")):
        (tmp_path / name / folder).mkdir(parents=True)
        (tmp_path / name / "stat").write_text(NEW)
    (tmp_path / "dm-0" / "dm" / "uuid").write_text("mpath-3600\n")
    (tmp_path / "dm-0" / "slaves" / "sda").mkdir(parents=True)
    found = read_stats(["pmem0", "sda", "dm-0"], tmp_path)
    assert {name: each.flushes for name, each in found.items()} == {
        "pmem0": None,
        "sda": 968,
        "dm-0": 968,
    }


def device(name: str, *below: BlockDevice, loop: bool = False, cache: str = "") -> BlockDevice:
    """Return a device; without `cache`, it is unknown whether the device has one."""
    limits = queue(write_cache=cache or Unknown("write_cache", Why.ABSENT))
    backing = LoopDevice("/f", 0, known(DeviceNumber(1, 1)))
    number = DeviceNumber(8, NAMES.index(name))
    return disk(name, number, limits, below=known(below), loop=backing if loop else None)


def multipath(*paths: BlockDevice) -> BlockDevice:
    """Return a map over some paths."""
    dm = DmDevice("mpatha", "mpath-3600", known(()))
    return replace(device("dm-0", *paths, cache="write back"), dm=dm)


NAMES = ("dm-0", "loop0", "md0", "sda", "sda1", "sdb", "vda", "vda1")
DISK = device("vda", cache="write back")


@pytest.mark.parametrize(
    ("stack", "disks"),
    [
        (DISK, [Disk("vda", "write back")]),
        (device("vda1", DISK, cache="write through"), [Disk("vda", "write back")]),
        (
            device("md0", device("sda1", device("sda")), device("sdb", cache="write through")),
            [Disk("sda", None), Disk("sdb", "write through")],
        ),
        (device("loop0", DISK, loop=True, cache="write back"), [Disk("loop0", "write back")]),
        (device("dm-0", device("md0", DISK), DISK), [Disk("vda", "write back")]),
        (device("md0", multipath(device("sda"), device("sdb"))), [Disk("dm-0", "write back")]),
    ],
    ids=["disk", "partition", "array", "loop", "twice", "multipath"],
)
def test_flushes_are_counted_by_disks_and_loop_devices(
    stack: BlockDevice, disks: list[Disk]
) -> None:
    """md, device mapper and partitions pass flushes on; below a loop device others flush too."""
    assert list(flushed_disks(stack)) == disks
