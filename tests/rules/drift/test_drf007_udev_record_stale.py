"""DRF007: udev's record of a device compared with the superblock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.devices import BlockDevice
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf007_udev_record_stale import check
from support.builders import (
    UUID,
    disk,
    filesystem,
    fstab_entry,
    host,
    known,
    superblock,
    unknown,
)

OTHER = "5b2e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b22"
BARE_RECORD = {"DEVNAME": "/dev/sda", "USEC_INITIALIZED": "1234567"}
COMPLETE_RECORD = {**BARE_RECORD, "ID_FS_TYPE": "ext4", "ID_FS_UUID": UUID}
BY_PATH = known((fstab_entry(spec="/dev/sda"),))


def with_record(record: dict[str, str]) -> BlockDevice:
    """Build a disk with this udev record."""
    return replace(disk(), udev=tuple(sorted(record.items())))


def verdict(record: dict[str, str], **changes: Any) -> Verdict:
    """Judge a filesystem, by default one that fstab names by its UUID."""
    fs = filesystem(**{"stack": known(with_record(record)), **changes})
    return judge(check, fs, host(fs))


@pytest.mark.parametrize(
    ("record", "changes", "outcome"),
    [
        (COMPLETE_RECORD, {}, Outcome.PASS),
        ({**COMPLETE_RECORD, "ID_FS_UUID": UUID.upper()}, {}, Outcome.PASS),
        ({**COMPLETE_RECORD, "ID_FS_UUID": OTHER}, {}, Outcome.FAIL),
        ({**COMPLETE_RECORD, "ID_FS_UUID": OTHER}, {"fstab": BY_PATH}, Outcome.FAIL),
        ({**COMPLETE_RECORD, "ID_FS_TYPE": "xfs", "ID_FS_UUID": OTHER}, {}, Outcome.FAIL),
        (BARE_RECORD, {}, Outcome.FAIL),
        (BARE_RECORD, {"fstab": BY_PATH}, Outcome.PASS),
        ({}, {}, Outcome.NOT_APPLICABLE),
        ({"DEVNAME": "/dev/sda"}, {}, Outcome.NOT_APPLICABLE),
        ({**BARE_RECORD, "SYSTEMD_READY": "0"}, {}, Outcome.NOT_APPLICABLE),
        ({**BARE_RECORD, "DM_UDEV_DISABLE_OTHER_RULES_FLAG": "1"}, {}, Outcome.NOT_APPLICABLE),
        (COMPLETE_RECORD, {"superblock": unknown("superblock")}, Outcome.UNDETERMINED),
        (COMPLETE_RECORD, {"superblock": known(superblock(uuid=None))}, Outcome.UNDETERMINED),
        (COMPLETE_RECORD, {"fstab": unknown("fstab")}, Outcome.UNDETERMINED),
        (COMPLETE_RECORD, {"stack": unknown("stack")}, Outcome.UNDETERMINED),
    ],
)
def test_drf007_outcomes(record: dict[str, str], changes: dict[str, Any], outcome: Outcome) -> None:
    """A record without filesystem properties matters only if something mounts by them."""
    assert verdict(record, **changes).outcome is outcome


def test_drf007_unread_record_does_not_pass() -> None:
    """Without udev there is no record; a record that could not be read is unknown."""
    refused = replace(disk(), udev_gap=unknown("udev record of 8:0"))
    assert verdict({}, stack=known(refused)).outcome is Outcome.UNDETERMINED


def test_drf007_severity_is_higher_if_fstab_uses_the_links() -> None:
    """The links in /dev/disk are created from the record."""
    stale = {**COMPLETE_RECORD, "ID_FS_TYPE": "xfs", "ID_FS_UUID": OTHER}
    (medium,) = verdict(stale).findings
    (low,) = verdict(stale, fstab=BY_PATH).findings
    assert (medium.severity, low.severity) == (Severity.MEDIUM, Severity.LOW)
    assert medium.summary == "udev's record of the device names another filesystem"
    assert medium.message == (
        "udev's record of /dev/sda does not match its filesystem, but shows another one "
        f"(xfs, {OTHER}); the next mount of UUID={UUID} fails or finds another device."
    )
    (gone,) = verdict(BARE_RECORD).findings
    assert "does not match its filesystem, but shows none" in gone.message
    assert gone.summary == "udev does not know the filesystem on the device"


REMEDIES_NOT_RUN = "Only a host where udevd runs can try it: the remedy is advice in words."
