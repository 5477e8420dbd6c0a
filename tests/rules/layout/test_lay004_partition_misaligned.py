"""LAY004: the start of a partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment, QueueLimits
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Disruption, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay004_partition_misaligned import check
from support.builders import disk, filesystem, host, known, queue, raid, unknown

PHYSICAL = queue(physical_block_bytes=4096, minimum_io_bytes=4096)
STRIPE = queue(minimum_io_bytes=65536, optimal_io_bytes=196608)
BRIDGE = queue(physical_block_bytes=4096, minimum_io_bytes=4096, optimal_io_bytes=33553920)
NVME = queue(optimal_io_bytes=512)
STRIPE_ON_4K = queue(physical_block_bytes=4096, minimum_io_bytes=65536, optimal_io_bytes=262144)


def partition(
    start: int | None, limits: QueueLimits | None = None, offset: int | None = None, **more: Any
) -> BlockDevice:
    """Build a partition that starts at this sector."""
    return disk(
        "sda1",
        DeviceNumber(8, 1),
        limits,
        kind="partition",
        below=more.pop("below", known((disk(limits=limits),))),
        start_sectors=start,
        alignment_offset_bytes=None if offset is None else known(offset),
        **more,
    )


def mapped(table: str | None, offset: int | None = None, target: str = "linear") -> BlockDevice:
    """Build the partition of a multipath device; None is a table that only root can read."""
    read = known((DmSegment(0, 2048, target, tuple((table or "").split())),))
    segments = unknown("table") if table is None else read
    multipath = disk("dm-0", DeviceNumber(253, 0), PHYSICAL, kind="dm-multipath")
    dm = DmDevice("mpatha-part1", "part1-mpath-3600140500000", segments)
    below = known((multipath,))
    shown = None if offset is None else known(offset)
    device = partition(None, PHYSICAL, below=below, dm=dm)
    return replace(device, kind=f"dm-{target}", name="dm-1", alignment_offset_bytes=shown)


def verdict(stack: Evidence[BlockDevice]) -> Verdict:
    """Judge a filesystem on a stack."""
    fs = filesystem(stack=stack)
    return judge(check, fs, host(fs))


@pytest.mark.parametrize(
    ("stack", "outcome", "severity"),
    [
        (partition(2048), Outcome.PASS, None),
        (partition(63), Outcome.PASS, None),
        (partition(2048, PHYSICAL), Outcome.PASS, None),
        (partition(63, PHYSICAL), Outcome.FAIL, Severity.MEDIUM),
        (partition(2048, BRIDGE), Outcome.PASS, None),
        (partition(2048, NVME), Outcome.PASS, None),
        (partition(2048, PHYSICAL, offset=0), Outcome.PASS, None),
        (partition(63, PHYSICAL, offset=0), Outcome.PASS, None),
        (partition(2048, PHYSICAL, offset=3584), Outcome.FAIL, Severity.MEDIUM),
        (partition(2048, PHYSICAL, offset=-1), Outcome.PASS, None),
        (partition(63, PHYSICAL, offset=-1), Outcome.FAIL, Severity.MEDIUM),
        (partition(2048, STRIPE), Outcome.FAIL, Severity.LOW),
        (partition(6144, STRIPE), Outcome.PASS, None),
        (partition(2056, STRIPE_ON_4K, offset=61440), Outcome.FAIL, Severity.LOW),
        (
            raid((partition(63, PHYSICAL), disk("sdb", DeviceNumber(8, 16)))),
            Outcome.FAIL,
            Severity.MEDIUM,
        ),
        (mapped("253:0 2048"), Outcome.PASS, None),
        (mapped("253:0 63"), Outcome.FAIL, Severity.MEDIUM),
        (mapped("253:0 63", offset=0), Outcome.PASS, None),
        (mapped("253:0 2048", offset=3584), Outcome.FAIL, Severity.MEDIUM),
        (mapped(None), Outcome.UNDETERMINED, None),
        (mapped(""), Outcome.UNDETERMINED, None),
        (mapped("253:0 x"), Outcome.UNDETERMINED, None),
        (mapped("2 128 253:0 63", target="striped"), Outcome.UNDETERMINED, None),
        (disk(), Outcome.NOT_APPLICABLE, None),
        (partition(None), Outcome.UNDETERMINED, None),
        (partition(2048, queue(physical_block_bytes=unknown("x"))), Outcome.UNDETERMINED, None),
        (partition(2048, queue(optimal_io_bytes=unknown("x"))), Outcome.UNDETERMINED, None),
        (partition(2048, below=unknown("x")), Outcome.UNDETERMINED, None),
    ],
)
def test_lay004_outcomes_by_start_sector(
    stack: BlockDevice, outcome: Outcome, severity: Severity | None
) -> None:
    """The kernel's alignment counts; bridges, NVMe's one-block unit and 512-byte disks pass."""
    reported = verdict(known(stack))
    assert reported.outcome is outcome, reported.note
    assert [finding.severity for finding in reported.findings] == ([severity] if severity else [])


def test_lay004_names_the_partition_of_a_multipath_device() -> None:
    """dm-1 can be another device after the next start; the start is in its table."""
    (finding,) = verdict(known(mapped("253:0 63"))).findings
    assert finding.message.startswith("mpatha-part1 starts at sector 63, inside a physical block")
    assert finding.citations[0].label == "start of mpatha-part1"


def test_lay004_without_sysfs_is_undetermined() -> None:
    """Without /sys nothing is known."""
    assert verdict(unknown("stack")).outcome is Outcome.UNDETERMINED


@pytest.mark.parametrize(("limits", "sector"), [(PHYSICAL, "2048 "), (STRIPE, "6144 ")])
def test_lay004_remedy_names_an_aligned_start(limits: QueueLimits, sector: str) -> None:
    """The start fits the physical block and the stripe; no destructive command is printed."""
    (finding,) = verdict(known(partition(63, limits))).findings
    (remedy,) = finding.remedies
    assert f"start sector that is a multiple of {sector}" in remedy.summary
    assert remedy.destructive
    assert remedy.disruption is Disruption.RECREATE
    assert remedy.steps == ()


UNKNOWN_BLOCK_SIZE = queue(physical_block_bytes=unknown("request queue"))


@pytest.mark.parametrize(
    ("start", "kind", "outcome"),
    [
        (2048, "image", Outcome.PASS),
        (63, "image", Outcome.UNDETERMINED),
        (2048, "disk", Outcome.UNDETERMINED),
    ],
)
def test_lay004_start_at_a_mebibyte_in_an_image_passes(
    start: int, kind: str, outcome: Outcome
) -> None:
    """No physical block is larger, and a disk image has no queue."""
    below = known((disk(limits=UNKNOWN_BLOCK_SIZE, kind=kind),))
    assert verdict(known(partition(start, UNKNOWN_BLOCK_SIZE, below=below))).outcome is outcome


REMEDIES_NOT_RUN = "Its remedy is to make the partition anew: advice, without a command."
