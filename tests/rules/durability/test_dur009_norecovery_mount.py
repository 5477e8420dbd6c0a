from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Disruption, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur009_norecovery_mount import check
from support.builders import disk, filesystem, known, mount, options, superblock, unknown
from support.filesystems.scratch import run
from support.judging import only_finding, verdict_on
from support.remedies.case import LoopMount, RemedyCase

CLEAN = superblock()
DIRTY = superblock(features=CLEAN.features | {"needs_recovery"})
READ_ONLY = (mount(flags=("ro", "relatime"), super_options=("ro", "norecovery")),)


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_unreplayed_journal(word: str = "norecovery", **changes: Any) -> Filesystem:
    """Build a read-only mount with norecovery, whose journal needs recovery."""
    values: dict[str, Any] = {
        "read_only": known(value=True),
        "superblock": known(DIRTY, "dumpe2fs -h /dev/sda"),
        "mounts": READ_ONLY,
        **changes,
    }
    return filesystem(options=known(options(word)), **values)


@pytest.mark.parametrize(
    ("changes", "severity", "confidence"),
    [
        ({}, Severity.MEDIUM, Confidence.CONFIRMED),
        ({"word": "noload"}, Severity.MEDIUM, Confidence.CONFIRMED),
        ({"read_only": known(value=False)}, Severity.CRITICAL, Confidence.CONFIRMED),
        (
            {"read_only": known(value=False), "superblock": known(CLEAN)},
            Severity.CRITICAL,
            Confidence.CONFIRMED,
        ),
        ({"superblock": known(CLEAN)}, Severity.INFO, Confidence.CONFIRMED),
        ({"stack": known(disk(kind="dm-snapshot"))}, Severity.INFO, Confidence.LIKELY),
        ({"superblock": unknown("superblock")}, Severity.MEDIUM, Confidence.POSSIBLE),
        ({"read_only": unknown("read-only")}, Severity.MEDIUM, Confidence.LIKELY),
    ],
    ids=["ro", "noload", "rw", "rw, clean", "ro, clean", "snapshot", "no root", "ro unknown"],
)
def test_severity_by_mount_mode_and_journal_state(
    changes: dict[str, Any], severity: Severity, confidence: Confidence
) -> None:
    """Read-only mounts of snapshots of a live volume are common for backups."""
    finding = finding_of(with_unreplayed_journal(**changes))
    assert (finding.severity, finding.confidence) == (severity, confidence)


@pytest.mark.parametrize(
    ("other", "severity"),
    [
        ({}, Severity.INFO),
        ({"uuid": "another"}, Severity.MEDIUM),
        ({"read_only": known(value=True)}, Severity.MEDIUM),
        ({"alive": False, "mounts": (), "read_only": unknown("read-only")}, Severity.MEDIUM),
    ],
)
def test_copy_of_a_writable_mount_is_a_snapshot(other: dict[str, Any], severity: Severity) -> None:
    """A thin volume, a volume of ZFS or a clone of an array has the UUID of its origin."""
    number = DeviceNumber(8, 16)
    origin = filesystem(number=number, name="sdb", device="/dev/sdb", **other)
    assert finding_of(with_unreplayed_journal(), origin).severity is severity


@pytest.mark.parametrize("missing", ["superblock", "read_only"])
def test_finding_with_missing_evidence_reports_the_gap(missing: str) -> None:
    """The gap is part of the verdict."""
    changes: dict[str, Any] = {missing: unknown(missing)}
    verdict = verdict_of(with_unreplayed_journal(**changes))
    assert [each.what for each in verdict.unknowns] == [missing]


def test_mount_without_the_option_passes() -> None:
    """The option is listed whenever it is in force."""
    verdict = verdict_of(filesystem(superblock=known(DIRTY)))
    assert verdict.outcome is Outcome.PASS
    assert [each.value for each in verdict.evidence] == ["not listed"]


@pytest.mark.parametrize("evidence", [unknown("options"), known(options(complete=False))])
def test_option_missing_from_the_mount_table_is_undetermined(evidence: Any) -> None:
    """A string in the unread superblock may set it."""
    fs = filesystem(options=evidence, superblock=unknown("superblock"))
    assert verdict_of(fs).outcome is Outcome.UNDETERMINED


@pytest.mark.parametrize(
    ("string", "outcome"),
    [("", Outcome.PASS), ("noatime,STRING", Outcome.UNDETERMINED)],
)
def test_superblock_string_decides_if_the_mount_table_lacks_the_option(
    string: str, outcome: Outcome
) -> None:
    """The table shows the option unless the superblock's string sets it."""
    held = superblock(mount_option_string=string.replace("STRING", "noload"))
    fs = filesystem(options=known(options(complete=False)), superblock=known(held))
    assert verdict_of(fs).outcome is outcome


def test_unmounted_filesystem_is_not_applicable() -> None:
    """A filesystem has options in force only while the kernel has it mounted."""
    assert verdict_of(filesystem(alive=False, mounts=())).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(("writable", "severity"), [(True, Severity.LOW), (False, Severity.INFO)])
def test_severity_without_a_journal(*, writable: bool, severity: Severity) -> None:
    """Nothing is replayed or lost; a journal made for DUR005 would not be used (6.18)."""
    without = known(superblock(features=CLEAN.features - {"has_journal"}))
    finding = finding_of(
        with_unreplayed_journal(superblock=without, read_only=known(value=not writable))
    )
    assert (finding.severity, finding.confidence) == (severity, Confidence.CONFIRMED)
    assert "has no effect" in finding.message
    (remedy,) = finding.remedies
    assert not remedy.trade_off
    assert not any("e2fsck" in step.command for step in remedy.lines)


WRITABLE_DEVICE = 'test "$(blockdev --getro /dev/sda)" = 0'
"""On a read-only device the kernel cannot replay the journal and refuses the new mount (6.18)."""


def test_remedy_mounts_a_read_only_mount_again() -> None:
    """The new mount replays the journal and stays read-only."""
    (remedy,) = finding_of(with_unreplayed_journal(fstab=known(()))).remedies
    assert [step.command for step in remedy.lines] == [
        WRITABLE_DEVICE,
        "umount /data",
        "mount -t ext4 -o ro,relatime /dev/sda /data",
        ("grep -q . /proc/fs/ext4/sda/options && ! grep -qx norecovery /proc/fs/ext4/sda/options"),
        "umount /data",
        "mount -t ext4 -o ro,relatime,norecovery /dev/sda /data",
    ]
    assert remedy.disruption is Disruption.UNMOUNT


@pytest.mark.parametrize("read_only", [known(value=False), unknown("read-only")])
def test_remedy_checks_a_writable_filesystem_before_it_is_mounted_again(read_only: Any) -> None:
    """It ran without a journal; the check is read-only, and refuses to run while it is mounted."""
    fs = with_unreplayed_journal(
        read_only=read_only, mounts=(mount(super_options=("rw", "norecovery")),)
    )
    commands = [step.command for step in finding_of(fs).remedies[0].lines]
    assert commands[:3] == [
        WRITABLE_DEVICE,
        "umount /data",
        "test ! -e /sys/fs/ext4/sda && e2fsck -fn /dev/sda",
    ]


def test_it_is_off_by_default() -> None:
    """Most people who mount that way know why."""
    assert not check.default


# norecovery is removed by a new mount, which replays; a writable mount is checked before.
SUMMARY = "Mount it without norecovery"


def _leave_a_dirty_journal(loop_mount: LoopMount) -> None:
    """Copy the image while it is mounted and being written, like the state after a crash."""
    loop_mount.mount()
    (loop_mount.mount_point / "file").write_text("data")
    run("sync", "-f", loop_mount.mount_point)
    copy = loop_mount.image.with_name("crashed")
    run("cp", loop_mount.device, copy)
    loop_mount.unmount()
    run("dd", f"if={copy}", f"of={loop_mount.device}", "bs=1M", "conv=fsync", "status=none")
    loop_mount.mount("ro,norecovery")


def _remount_writable(loop_mount: LoopMount) -> None:
    """Make a mount without recovery writable, which every kernel allows."""
    _leave_a_dirty_journal(loop_mount)
    run("mount", "-o", "remount,rw", loop_mount.mount_point)


REMEDY_CASES = (
    RemedyCase(name="read-only, clean, by hand", remedy=SUMMARY, mount="ro,norecovery"),
    RemedyCase(
        name="read-only, clean, by fstab",
        remedy=SUMMARY,
        fstab="ro,noload",
        mount="ro,norecovery",
    ),
    RemedyCase(
        name="read-only, a journal to be replayed",
        remedy=SUMMARY,
        mounted=False,
        prepare=_leave_a_dirty_journal,
    ),
    RemedyCase(name="writable, clean", remedy=SUMMARY, mount="norecovery"),
    RemedyCase(
        name="writable, a journal to be replayed",
        remedy=SUMMARY,
        mounted=False,
        prepare=_remount_writable,
    ),
)
