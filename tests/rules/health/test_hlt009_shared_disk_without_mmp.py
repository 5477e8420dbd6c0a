"""HLT009: disks of a storage network without multiple mount protection (MMP)."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.devices import BlockDevice, LsblkDevice
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt009_shared_disk_without_mmp import check
from support.builders import disk, filesystem, host, known, lsblk_row, superblock, unknown
from support.remedies.case import RemedyCase

WITH_MMP = superblock(features=superblock().features | {"mmp"})
LUN = lsblk_row(transport="fc")


def multipath() -> BlockDevice:
    """Build a multipath device over one path."""
    return disk("dm-0", DeviceNumber(254, 0), kind="dm-multipath", below=known((disk(),)))


def verdict(row: LsblkDevice | None = LUN, **changes: Any) -> Verdict:
    """Judge a filesystem whose disk has this row in lsblk."""
    devices = changes.pop("devices", known((row,) if row else ()))
    fs = filesystem(**changes)
    return judge(check, fs, host(fs, devices=devices))


@pytest.mark.parametrize(
    ("judged", "outcome"),
    [
        (verdict(), Outcome.FAIL),
        (verdict(lsblk_row(transport="iscsi")), Outcome.FAIL),
        (verdict(None, stack=known(multipath())), Outcome.FAIL),
        (verdict(None, stack=known(disk("rbd0"))), Outcome.FAIL),
        (verdict(superblock=known(WITH_MMP)), Outcome.PASS),
        (verdict(lsblk_row(transport="sata")), Outcome.NOT_APPLICABLE),
        (verdict(lsblk_row(transport=None)), Outcome.NOT_APPLICABLE),
        (verdict(superblock=unknown("superblock")), Outcome.UNDETERMINED),
        (verdict(devices=unknown("lsblk")), Outcome.UNDETERMINED),
        (verdict(stack=unknown("stack")), Outcome.UNDETERMINED),
        (verdict(lsblk_row(transport=None, unlisted=frozenset({"TRAN"}))), Outcome.UNDETERMINED),
        (verdict(None, stack=known(disk(below=unknown("slaves")))), Outcome.UNDETERMINED),
    ],
)
def test_hlt009_outcomes(judged: Verdict, outcome: Outcome) -> None:
    """A local disk is not visible to a second host."""
    assert judged.outcome is outcome
    assert all(finding.severity is Severity.LOW for finding in judged.findings)


def test_hlt009_says_how_long_a_mount_waits() -> None:
    """Measured on Linux 6.18: 44 s after a crash, and no wait after a clean unmount."""
    (finding,) = verdict().findings
    trade_off = finding.remedies[0].trade_off or ""
    assert trade_off.startswith("After an unclean stop, a mount takes 45 s longer.")


def with_luns_as_disks(judged: Host) -> Host:
    """Return the host with all its disks as LUNs of a storage network."""
    (fs, *_) = judged.filesystems
    assert not hasattr(fs.stack, "why")
    numbers = [device.device_number for device in fs.stack.value.walk()]
    rows = tuple(
        lsblk_row(f"lun{i}", number, transport="iscsi") for i, number in enumerate(numbers)
    )
    return judged._replace(devices=known(rows))


REMEDY_CASES = (
    RemedyCase(
        name="mounted, without an entry",
        remedy="set the feature mmp",
        alter=with_luns_as_disks,
    ),
    RemedyCase(
        name="mounted by fstab",
        remedy="set the feature mmp",
        mount="noatime",
        fstab="noatime",
        alter=with_luns_as_disks,
    ),
)
