"""LAY003: stripes that do not fit any array."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known, Unknown
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay003_stripe_oddity import check
from support.builders import (
    disk,
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    options,
    queue,
    raid,
    superblock,
    unknown,
)
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.steps_as_text import step_lines

STRIPED = disk(limits=queue(minimum_io_bytes=65536, optimal_io_bytes=196608))

UNREAD = queue(
    minimum_io_bytes=unknown("x"),
    optimal_io_bytes=unknown("x"),
    physical_block_bytes=unknown("x"),
)
NO_HINT = queue(minimum_io_bytes=0, optimal_io_bytes=0, physical_block_bytes=unknown("x"))
"""The queue of a planned disk: it has no stripe, whatever its physical block size is."""
IMAGE = disk(kind="image", limits=UNREAD)

MIRROR = raid([disk("vdb"), disk("vdc", DeviceNumber(8, 16))], level="raid1")
UNHINTED = raid([disk("vdb"), disk("vdc", DeviceNumber(8, 16))])
"""A striped array with the I/O sizes of a disk, whose stripe LAY002 judges."""


def with_stripe(live: int | str, stride: int = 0, width: int = 0, **changes: Any) -> Filesystem:
    """Build a filesystem with this stripe in force and these RAID hints in its superblock."""
    block_bytes = changes.pop("block_bytes", 4096)
    made = superblock(stride_blocks=stride, stripe_width_blocks=width, block_bytes=block_bytes)
    values: dict[str, Any] = {
        "superblock": known(made, "dumpe2fs"),
        "options": known(options(f"stripe={live}")),
    }
    return filesystem(**(values | changes))


def disk_with_optimal_io(optimal_io_bytes: int, **limits: Any) -> Known[BlockDevice]:
    """Build a disk that reports an optimal I/O size and no chunk."""
    return known(disk(limits=queue(optimal_io_bytes=optimal_io_bytes, **limits)))


def zvol(block: int | Unknown) -> Known[BlockDevice]:
    """Build a ZFS volume with blocks of 16 KiB."""
    return disk_with_optimal_io(16384, minimum_io_bytes=16384, physical_block_bytes=block)


def verdict(fs: Filesystem, release: str = "6.12.1") -> Verdict:
    """Judge a filesystem on a kernel."""
    return judge(check, fs, host(fs, kernel=known(kernel(release))))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_stripe(0), Outcome.PASS),
        (with_stripe(0, superblock=unknown("superblock"), stack=unknown("stack")), Outcome.PASS),
        (with_stripe(2048, 128, 2048), Outcome.FAIL),
        (with_stripe(2048, 128, 2048, stack=known(MIRROR)), Outcome.FAIL),
        (with_stripe(7, stack=known(disk(limits=NO_HINT))), Outcome.FAIL),
        (with_stripe(32745, 0, 32745, stack=known(MIRROR)), Outcome.FAIL),
        (with_stripe(32752, 32752), Outcome.FAIL),
        (with_stripe(2048, 128, 2048, stack=known(IMAGE)), Outcome.PASS),
        (with_stripe(128, 128, stack=known(IMAGE)), Outcome.PASS),
        (with_stripe(2048, 128, 2048, stack=known(UNHINTED)), Outcome.PASS),
        (with_stripe(512, 0, 512, stack=disk_with_optimal_io(512 * 4096)), Outcome.PASS),
        (with_stripe(512, 0, 512, stack=disk_with_optimal_io(1024 * 4096)), Outcome.FAIL),
        (with_stripe(4, 4, 4, stack=zvol(16384)), Outcome.PASS),
        (with_stripe(4, 4, 4, stack=disk_with_optimal_io(16384)), Outcome.FAIL),
        (with_stripe(4, 4, 4, stack=zvol(unknown("block"))), Outcome.UNDETERMINED),
        (with_stripe(8190, 0, 8190, stack=disk_with_optimal_io(8190 * 4096)), Outcome.FAIL),
        (with_stripe(8191, 8191, 8191), Outcome.FAIL),
        (with_stripe(8191, 0, 8191), Outcome.FAIL),
        (with_stripe(32767, 0, 32767, block_bytes=1024), Outcome.FAIL),
        (with_stripe(8191, 0, 8191, block_bytes=1024, stack=known(IMAGE)), Outcome.PASS),
        (with_stripe(24, 16, 24), Outcome.FAIL),
        (with_stripe(24, 16, 24, stack=known(IMAGE)), Outcome.FAIL),
        (with_stripe(65536), Outcome.FAIL),
        (with_stripe(0, 0, 8191, alive=False, mounts=()), Outcome.FAIL),
        (with_stripe(0, alive=False, mounts=()), Outcome.PASS),
        (with_stripe(8191, 0, 8191, stack=known(STRIPED)), Outcome.NOT_APPLICABLE),
        (with_stripe(8191, superblock=unknown("superblock")), Outcome.UNDETERMINED),
        (
            with_stripe(48, superblock=unknown("superblock"), stack=known(STRIPED)),
            Outcome.NOT_APPLICABLE,
        ),
        (with_stripe(8191, 0, 8191, stack=unknown("stack")), Outcome.UNDETERMINED),
        (with_stripe(512, 0, 512, stack=known(disk(limits=UNREAD))), Outcome.UNDETERMINED),
        (with_stripe(0, stack=known(disk(limits=UNREAD))), Outcome.PASS),
        (with_stripe("x"), Outcome.UNDETERMINED),
        (with_stripe("9" * 5000), Outcome.UNDETERMINED),
        (with_stripe(0, options=unknown("options")), Outcome.UNDETERMINED),
    ],
)
def test_lay003_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """A disk or mirror must have none; elsewhere 65535 sectors, over a group, half chunks fail."""
    reported = verdict(fs)
    assert reported.outcome is outcome, reported.note


def test_lay003_message_names_the_device() -> None:
    """The device is named, because it may be a controller."""
    (finding,) = verdict(with_stripe(2048, 128, 2048, stack=known(MIRROR))).findings
    assert finding.message.startswith(
        "A stripe of 2048 blocks is in force, but md127 is not on a striped array: aligning"
    )


@pytest.mark.parametrize(
    ("release", "severity"),
    [
        ("5.15.0-91-generic", Severity.LOW),
        ("6.1.0-18-amd64", Severity.LOW),
        ("6.5.13", Severity.MEDIUM),
        ("6.7.12", Severity.MEDIUM),
        ("6.8.0-31-generic", Severity.LOW),
    ],
)
def test_lay003_severity_on_kernels_of_krn002(release: str, severity: Severity) -> None:
    """On 6.5 to 6.7 any stripe is likely to cost a CPU; on 6.1 this was rarely reported."""
    (finding,) = verdict(with_stripe(8191, 0, 8191), release).findings
    assert finding.severity is severity
    assert ("KRN002" in finding.message) == (severity is Severity.MEDIUM)


def test_lay003_remedy_removes_the_stripe_everywhere() -> None:
    """It is turned off in force, in the superblock and in fstab; the rollback restores all."""
    fs = with_stripe(8191, 8191, 8191, fstab=known((fstab_entry("stripe=8191"),)))
    (finding,) = verdict(fs).findings
    (remedy,) = finding.remedies
    commands = [(step.phase, step.command) for step in remedy.lines]
    assert commands[0] == (Phase.IMMEDIATE, "mount -o remount,rw,relatime,stripe=0 /dev/sda /data")
    assert (Phase.PERSISTENT, "tune2fs -E stride=0,stripe_width=0 /dev/sda") in commands
    assert "persistent: fstab 7: stripe=8191 -> defaults" in step_lines(remedy.steps)
    assert (
        Phase.VERIFY,
        (
            "tune2fs -l /dev/sda | grep -q UUID: && "
            "! tune2fs -l /dev/sda | grep -q '^RAID stripe width:'"
        ),
    ) in commands
    assert (Phase.ROLLBACK, "tune2fs -E stride=8191,stripe_width=8191 /dev/sda") in commands
    assert commands[-1] == (
        Phase.ROLLBACK,
        "mount -o remount,rw,relatime,stripe=8191 /dev/sda /data",
    )


def test_lay003_cites_active_options_first() -> None:
    """The superblock's fields follow, and the fstab entry is last."""
    fs = with_stripe(24, 16, 24, fstab=known((fstab_entry("stripe=24"),)))
    (finding,) = verdict(fs).findings
    assert [(each.label, each.value) for each in finding.citations] == [
        ("option in force: stripe", "stripe=24"),
        ("RAID hints", "stride 16, width 24 blocks"),
        ("fstab line 7", "stripe=24"),
        ("mount table", "rw,stripe=24"),
    ]


# An odd stripe set in the superblock, in fstab, and by a remount.
OFF = "Turn the stripe off"


def set_stripe_larger_than_a_group(loop_mount: LoopMount) -> None:
    """Set a stripe that a mount refuses but a remount accepts."""
    run("mount", "-o", "remount,stripe=65536", loop_mount.mount_point)


REMEDY_CASES = (
    RemedyCase(
        name="65535 sectors in the superblock",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stride=8191,stripe_width=8191"),
    ),
    RemedyCase(
        name="only a stride, and a zero in fstab that does nothing",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stride=8191"),
        mount="stripe=0",
        fstab="stripe=0,nofail",
    ),
    RemedyCase(
        name="no multiple of the stride, and fstab asks for it",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stride=16,stripe_width=24"),
        mount="stripe=24,noatime",
        fstab="noatime,stripe=24",
    ),
    RemedyCase(
        name="by a remount",
        remedy=OFF,
        mke2fs=("-b", "4096"),
        prepare=set_stripe_larger_than_a_group,
    ),
    RemedyCase(
        name="not mounted",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stripe_width=8191"),
        mounted=False,
    ),
)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, ""),
        ({"mounts": ()}, ", in the mount namespace that has it mounted"),
        ({"mounts": (), "alive": False}, ""),
    ],
)
def test_lay003_advice_without_a_usable_mount(changes: dict[str, Any], where: str) -> None:
    """A remount needs the mount point; what is not mounted needs none."""
    (finding,) = verdict(with_stripe(8191, 0, 8191, **changes)).findings
    (remedy,) = finding.remedies
    assert remedy.summary == f"Turn the stripe off, now and where it is set{where}."
    assert bool(remedy.steps) is (not where)


def test_lay003_remedy_names_rootflags() -> None:
    """The kernel would set it again at the next start."""
    root = with_stripe(8191, 0, 8191, mounts=(mount("/"),))
    of = host(root, kernel_arguments=known(("rootflags=stripe=8191",)))
    (finding,) = judge(check, root, of).findings
    assert "Also remove stripe= from rootflags=" in finding.remedies[0].summary
