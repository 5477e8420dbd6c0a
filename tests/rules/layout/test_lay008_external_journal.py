"""LAY008: a journal on another device."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment, LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Finding, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay008_external_journal import check
from support.builders import (
    UUID,
    disk,
    filesystem,
    host,
    known,
    lsblk_row,
    raid,
    superblock,
    unknown,
)
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase

SDB1 = 0x0811


def with_external_journal(
    stack: Evidence[BlockDevice] | None = None, encoded: int = SDB1, uuid: str | None = UUID
) -> Filesystem:
    """Build a filesystem whose journal is on another device."""
    held = superblock(journal_bytes=None, journal_device=encoded, journal_uuid=uuid)
    return filesystem(superblock=known(held), stack=stack or known(disk()), fstab=known(()))


def host_with_devices(fs: Filesystem, *devices: LsblkDevice) -> Host:
    """Build the host of a filesystem, with these devices in lsblk."""
    return host(fs, devices=known(devices))


def verdict(judged: Host) -> Verdict:
    """Judge the filesystem of a host."""
    return judge(check, judged.filesystems[0], judged)


def with_superblock(**changes: Any) -> Filesystem:
    """Build a filesystem with this superblock."""
    return filesystem(superblock=known(superblock(**changes)))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_superblock(), Outcome.PASS),
        (with_superblock(journal_bytes=None, journal_inode=8), Outcome.PASS),
        (with_external_journal(), Outcome.FAIL),
        (with_superblock(features=frozenset()), Outcome.NOT_APPLICABLE),
        (with_superblock(journal_bytes=None), Outcome.UNDETERMINED),
        (filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED),
    ],
    ids=["default", "by inode", "outside", "no journal", "not seen", "not read"],
)
def test_lay008_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The superblock has either the inode or the device of the journal."""
    assert verdict(host_with_devices(fs)).outcome is outcome


def found(judged: Host) -> Finding:
    """Return the finding of a host."""
    (finding,) = verdict(judged).findings
    return finding


MIRROR = known(
    raid([disk("sdc", DeviceNumber(8, 32)), disk("sdd", DeviceNumber(8, 48))], level="raid1")
)
DISK = lsblk_row("sdb1", DeviceNumber(8, 17))
HIDDEN = known(replace(MIRROR.value, kind="md", md=unknown("md"), md_state=unknown("md")))


def volume(target: str, *arguments: str) -> Evidence[BlockDevice]:
    """Build a logical volume over two disks with one segment."""
    segment = DmSegment(0, 2048, target, arguments)
    dm = DmDevice("vg-data", "LVM-1", known((segment,)))
    return known(disk("dm-0", kind=f"dm-{target}", below=MIRROR.value.below, dm=dm))


ARRAY = lsblk_row("md1", DeviceNumber(9, 1))


@pytest.mark.parametrize(
    ("judged", "severity", "confidence"),
    [
        (host_with_devices(with_external_journal(), DISK), Severity.INFO, Confidence.CONFIRMED),
        (
            host_with_devices(with_external_journal(MIRROR), DISK),
            Severity.MEDIUM,
            Confidence.LIKELY,
        ),
        (
            host_with_devices(with_external_journal(MIRROR, 0x0901), ARRAY),
            Severity.INFO,
            Confidence.CONFIRMED,
        ),
        (host_with_devices(with_external_journal(MIRROR)), Severity.INFO, Confidence.CONFIRMED),
        (
            host_with_devices(with_external_journal(unknown("stack")), DISK),
            Severity.INFO,
            Confidence.CONFIRMED,
        ),
    ],
    ids=["disk and disk", "disk below a mirror", "array", "journal not listed", "stack unknown"],
)
def test_lay008_severity(judged: Host, severity: Severity, confidence: Confidence) -> None:
    """A mirror with its journal on one disk does not survive the loss of that disk."""
    finding = found(judged)
    assert (finding.severity, finding.confidence) == (severity, confidence)
    is_exposed = severity is Severity.MEDIUM
    assert ("although its array has redundancy" in finding.message) is is_exposed
    assert finding.summary == (
        "the journal is on a single disk, the filesystem on a redundant array"
        if is_exposed
        else "the journal is on another device"
    )


@pytest.mark.parametrize(
    ("stack", "severity"),
    [
        (volume("raid", "raid5_ls", "3", "128"), Severity.MEDIUM),
        (volume("raid", "raid1", "3", "0"), Severity.MEDIUM),
        (volume("mirror", "disk", "2", "253:1", "1024"), Severity.MEDIUM),
        (volume("raid", "raid0_meta", "1", "128"), Severity.INFO),
        (volume("raid"), Severity.INFO),
        (volume("striped", "2", "128"), Severity.INFO),
        (known(replace(MIRROR.value, kind="md", md=unknown("md"))), Severity.MEDIUM),
    ],
)
def test_lay008_knows_the_arrays_of_lvm(stack: Evidence[BlockDevice], severity: Severity) -> None:
    """A segment of dm-raid has md's level, with a suffix for the layout (drivers/md/dm-raid.c)."""
    assert found(host_with_devices(with_external_journal(stack), DISK)).severity is severity


@pytest.mark.parametrize(("stack", "gaps"), [(HIDDEN, True), (known(disk()), False)])
def test_lay008_is_incomplete_if_the_level_of_an_array_is_unknown(
    stack: Evidence[BlockDevice], *, gaps: bool
) -> None:
    """A mirror would make the finding medium."""
    judged = verdict(host_with_devices(with_external_journal(stack), DISK))
    assert [each.severity for each in judged.findings] == [Severity.INFO]
    assert bool(judged.unknowns) is gaps


@pytest.mark.parametrize(
    ("encoded", "number"), [(0x0811, "8:17"), (0x10FD03, "253:259"), (0x901, "9:1")]
)
def test_lay008_decodes_the_device_number(encoded: int, number: str) -> None:
    """The upper bits of the number hold the rest of a minor number above 255."""
    assert f"({number})" in found(host_with_devices(with_external_journal(encoded=encoded))).message


def test_lay008_finds_the_journal_by_uuid() -> None:
    """After a reboot another device can have the number, even the filesystem's; the UUID stays."""
    journal = lsblk_row("sdc1", DeviceNumber(8, 33), fstype="jbd")
    unmounted = with_external_journal()._replace(alive=False)
    assert (
        "(sdc1)" in found(host_with_devices(unmounted, DISK._replace(uuid=None), journal)).message
    )
    assert (
        "(8:17 at its last mount)"
        in found(host_with_devices(unmounted, DISK._replace(uuid=None))).message
    )


def test_lay008_commands_and_rollback() -> None:
    """The rollback names the journal by its UUID, and without a UUID there is no rollback."""
    (remedy,) = found(host_with_devices(with_external_journal())).remedies
    tuned = [step.command for step in remedy.lines if "^has_journal" in step.command]
    clear = "test ! -e /sys/fs/ext4/sda && tune2fs -O ^has_journal /dev/sda && "
    back = f"tune2fs -J device=UUID={UUID} /dev/sda"
    new = f"{{ tune2fs -O has_journal /dev/sda || {back}; }}"
    assert tuned == [f"{clear}{new}", f"{clear}{back}"]
    (remedy,) = found(host_with_devices(with_external_journal(uuid=None))).remedies
    assert all(step.phase is not Phase.ROLLBACK for step in remedy.lines)


# The journal moves into the filesystem, and out again.
LOOP_DEVICES: list[int] = []
"""File descriptors that hold the loop devices of journals until this process ends."""


def move_journal_out(loop_mount: LoopMount) -> None:
    """Move the journal to a new loop device."""
    image = loop_mount.image.with_name("journal")
    run("truncate", "-s", "32M", image)
    device = run("losetup", "--find", "--show", image).strip()
    LOOP_DEVICES.append(os.open(device, os.O_RDONLY))
    run("losetup", "--detach", device)  # happens when the last user closes it
    run("mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "1024", device)
    run("tune2fs", "-O", "^has_journal", loop_mount.device)
    run("tune2fs", "-J", f"device={device}", loop_mount.device)


def move_out_and_mount(loop_mount: LoopMount) -> None:
    """Mount the filesystem with an external journal."""
    move_journal_out(loop_mount)
    loop_mount.mount("noatime")


REMEDY = "Move the journal into"
REMEDY_CASES = (
    RemedyCase(
        name="mounted",
        remedy=REMEDY,
        mke2fs=("-b", "1024"),
        mounted=False,
        fstab="noatime",
        prepare=move_out_and_mount,
    ),
    RemedyCase(
        name="not mounted",
        remedy=REMEDY,
        mke2fs=("-b", "1024"),
        mounted=False,
        prepare=move_journal_out,
    ),
)
