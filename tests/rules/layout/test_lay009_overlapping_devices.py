"""LAY009: filesystems on the same disk sectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence, need
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay009_overlapping_devices import check
from support.builders import disk, filesystem, host, known, loop, mount, raid, unknown


def part(minor: int, start: int | None, end: int, whole: BlockDevice | None = None) -> BlockDevice:
    """Build a partition from its first sector up to, but not including, `end`."""
    return disk(
        f"sda{minor}",
        DeviceNumber(8, minor),
        kind="partition",
        below=known((whole or disk(),)),
        start_sectors=start,
        size_sectors=known(end - (start or 0)),
    )


def mounted_on(
    stack: BlockDevice | Evidence[BlockDevice], where: str = "/data", **more: Any
) -> Filesystem:
    """Build a mounted filesystem on a device."""
    evidence = known(stack) if isinstance(stack, BlockDevice) else stack
    device = stack if isinstance(stack, BlockDevice) else disk("sdz", DeviceNumber(65, 0))
    number = device.device_number
    mounts = (mount(where, number=number),)
    return filesystem(number=number, stack=evidence, mounts=mounts, uuid=where, **more)


def volume(minor: int, below: BlockDevice) -> BlockDevice:
    """Build a logical volume."""
    return disk(f"dm-{minor}", DeviceNumber(254, minor), kind="dm-linear", below=known((below,)))


def verdict(fs: Filesystem, *others: Filesystem) -> Verdict:
    """Judge the first of these filesystems."""
    return judge(check, fs, host(fs, *others))


FIRST, SECOND, ACROSS = part(1, 2048, 4096), part(2, 4096, 8192), part(3, 4000, 5000)
SDB = disk("sdb", DeviceNumber(8, 16))


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (FIRST, ACROSS),
        (ACROSS, SECOND),
        (disk(), FIRST),
        (FIRST, disk()),
        (volume(0, FIRST), ACROSS),
        (raid([FIRST, SDB]), ACROSS),
    ],
    ids=["partitions", "the other one", "whole disk", "a part of it", "volume", "array"],
)
def test_lay009_overlapping_devices_fail(own: BlockDevice, other: BlockDevice) -> None:
    """Both filesystems have the finding."""
    there = mounted_on(other, "/other")
    (finding,) = verdict(mounted_on(own), there).findings
    assert finding.severity is Severity.CRITICAL
    assert "/other" in finding.message
    assert finding.fact == there.uuid


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (mounted_on(FIRST), mounted_on(SECOND, "/other")),
        (mounted_on(SECOND), mounted_on(FIRST, "/other")),
        (mounted_on(volume(0, FIRST)), mounted_on(volume(1, FIRST), "/other")),
        (mounted_on(FIRST), mounted_on(part(1, 2048, 4096, SDB), "/other")),
        (mounted_on(FIRST), mounted_on(loop(known((FIRST,))), "/other")),
        (mounted_on(FIRST), mounted_on(ACROSS, "/other", alive=False)),
    ],
    ids=[
        "side by side",
        "side by side, the second",
        "volumes of one part",
        "another disk",
        "file on it",
        "not mounted",
    ],
)
def test_lay009_separate_devices_pass(own: Filesystem, other: Filesystem) -> None:
    """Volumes on one partition do not overlap, and neither does a file with its filesystem."""
    assert verdict(own, other).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (mounted_on(FIRST), Outcome.PASS),
        (mounted_on(loop()), Outcome.NOT_APPLICABLE),
        (mounted_on(FIRST, alive=False), Outcome.NOT_APPLICABLE),
        (mounted_on(part(1, None, 4096)), Outcome.UNDETERMINED),
        (mounted_on(unknown("stack")), Outcome.UNDETERMINED),
    ],
)
def test_lay009_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """A partition without a start sector may overlap any other."""
    assert verdict(fs).outcome is outcome


def test_lay009_other_unknown_stack_is_undetermined() -> None:
    """Known overlaps are still found."""
    assert (
        verdict(mounted_on(FIRST), mounted_on(unknown("stack"), "/x")).outcome
        is Outcome.UNDETERMINED
    )
    both = verdict(
        mounted_on(FIRST), mounted_on(ACROSS, "/other"), mounted_on(unknown("stack"), "/x")
    )
    assert both.outcome is Outcome.FAIL
    assert both.unknowns


def test_lay009_names_only_the_first_of_many_devices() -> None:
    """With a thousand devices on the same sectors, each would have a finding for every other."""
    many = [mounted_on(part(minor, 2048, 4096), f"/{minor}") for minor in range(2, 100)]
    found = verdict(mounted_on(FIRST), *many)
    assert [finding.fact for finding in found.findings] == [f"/{n}" for n in range(2, 10)]


def test_lay009_ignores_a_sector_of_thousands_of_digits() -> None:
    """The table is text from an archive."""
    table = known((DmSegment(0, 1000, "linear", ("8:0", "9" * 5000)),))
    assert (
        verdict(mounted_on(mapped(table)), mounted_on(SECOND, "/other")).outcome
        is not Outcome.ERROR
    )


def test_lay009_cites_the_sectors_of_both() -> None:
    """A reader can compare them with the partition table."""
    (finding,) = verdict(mounted_on(FIRST), mounted_on(ACROSS, "/other")).findings
    assert [(each.label, each.value) for each in finding.citations] == [
        ("sda1", "sectors 2048 to 4095"),
        ("sda3", "sectors 4000 to 4999"),
    ]


def mapped(table: Evidence[tuple[DmSegment, ...]], minor: int = 9) -> BlockDevice:
    """Build a mapped device on the whole disk sda."""
    dm = DmDevice(f"map{minor}", "", table)
    number = DeviceNumber(254, minor)
    return disk(f"dm-{minor}", number, kind="dm-linear", below=known((disk(),)), dm=dm)


def linear(start: int, length: int = 1000, target: str = "linear") -> Evidence[Any]:
    """Build a device-mapper table with one segment."""
    return known((DmSegment(0, length, target, ("8:0", str(start))),))


def striped(start: int) -> Evidence[Any]:
    """Build the table of a volume of two stripes, of which each disk has 1000 sectors."""
    return known((DmSegment(0, 2000, "striped", ("2", "128", "8:0", str(start), "8:16", "0")),))


def joined(*tables: Evidence[Any]) -> Evidence[Any]:
    """Build the table of a volume that was extended."""
    return known(tuple(segment for table in tables for segment in need(table)))


def crypt(start: int) -> Evidence[Any]:
    """Build the table of an encrypted device of 1000 sectors."""
    words = ("aes-xts-plain64", ":64:logon:cryptsetup:x-d0", "0", "8:0", str(start), "1", "discard")
    return known((DmSegment(0, 1000, "crypt", words),))


@pytest.mark.parametrize(
    ("own", "other", "outcome"),
    [
        (mapped(linear(5000)), FIRST, Outcome.PASS),
        (mapped(linear(3000)), FIRST, Outcome.FAIL),
        (FIRST, mapped(linear(5000)), Outcome.PASS),
        (mapped(linear(5000)), mapped(linear(6000), 8), Outcome.PASS),
        (mapped(linear(5000)), mapped(linear(5500), 8), Outcome.FAIL),
        (mapped(linear(0, target="multipath")), FIRST, Outcome.FAIL),
        (mapped(linear(0, target="thin-pool")), FIRST, Outcome.UNDETERMINED),
        (mapped(linear(0, target="thin-pool")), part(1, 2048, 4096, SDB), Outcome.PASS),
        (mapped(known((DmSegment(0, 9, "linear", ("8:0",)),))), FIRST, Outcome.UNDETERMINED),
        (mapped(striped(5000)), FIRST, Outcome.PASS),
        (mapped(striped(3000)), FIRST, Outcome.FAIL),
        (mapped(striped(5000)), mapped(linear(6000), 8), Outcome.PASS),
        (mapped(striped(5000)), mapped(linear(5900), 8), Outcome.FAIL),
        (mapped(striped(5000)), mapped(striped(6000), 8), Outcome.PASS),
        (mapped(striped(5000)), mapped(striped(5500), 8), Outcome.FAIL),
        (mapped(crypt(5000)), mapped(linear(6000), 8), Outcome.PASS),
        (mapped(crypt(5000)), mapped(linear(5999), 8), Outcome.FAIL),
        (mapped(joined(linear(5000), striped(7000))), FIRST, Outcome.PASS),
        (mapped(joined(linear(5000), striped(3000))), FIRST, Outcome.FAIL),
        (mapped(unknown("table")), FIRST, Outcome.UNDETERMINED),
        (FIRST, mapped(unknown("table")), Outcome.UNDETERMINED),
        (mapped(unknown("table")), mapped(unknown("table"), 8), Outcome.UNDETERMINED),
        (mapped(unknown("table")), part(1, 2048, 4096, SDB), Outcome.PASS),
    ],
)
def test_lay009_mapped_parts_of_a_disk(
    own: BlockDevice, other: BlockDevice, outcome: Outcome
) -> None:
    """Kpartx maps partitions in addition to the kernel's; only root can read the table.

    The volumes of a group on whole disks lie side by side, whether they are linear or striped.
    """
    assert verdict(mounted_on(own), mounted_on(other, "/other")).outcome is outcome


def test_lay009_cites_the_disk_of_each_part_of_a_volume() -> None:
    """A striped volume has a part on several disks."""
    cited = verdict(mounted_on(mapped(striped(5000)))).evidence
    assert [(each.label, each.value) for each in cited] == [("dm-9 on sda", "sectors 5000 to 5999")]


SECOND_LOOP = replace(loop(), name="loop1", device_number=DeviceNumber(7, 1))


@pytest.mark.parametrize(
    ("other", "read_only", "outcome"),
    [
        (mounted_on(SECOND_LOOP), False, Outcome.FAIL),
        (mounted_on(SECOND_LOOP), True, Outcome.NOT_APPLICABLE),
        (mounted_on(SECOND_LOOP, alive=False), False, Outcome.NOT_APPLICABLE),
        (mounted_on(SECOND_LOOP, "/another"), False, Outcome.NOT_APPLICABLE),
        (mounted_on(disk()), False, Outcome.NOT_APPLICABLE),
        (mounted_on(unknown("stack")), False, Outcome.UNDETERMINED),
        (mounted_on(unknown("stack"), "/another"), False, Outcome.NOT_APPLICABLE),
    ],
    ids=[
        *("mounted twice", "both read-only", "not mounted", "another UUID", "a copy"),
        *("anywhere", "another UUID, anywhere"),
    ],
)
def test_lay009_one_filesystem_mounted_through_two_devices(
    other: Filesystem, *, read_only: bool, outcome: Outcome
) -> None:
    """Two loop devices have the same file; `on` derives the UUID from the mount point."""
    one, other = (fs._replace(read_only=known(read_only)) for fs in (mounted_on(loop()), other))
    found = verdict(one, other)
    assert found.outcome is outcome
    assert all(finding.severity is Severity.CRITICAL for finding in found.findings)


REMEDIES_NOT_RUN = "Data that is overwritten comes from a backup: the remedy is advice in words."
