"""PRF012: sync and dirsync in the mount table."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.performance.prf012_sync_mount import check
from support.builders import disk, filesystem, fstab_entry, known, lsblk_row, mount, unknown
from support.judging import only_finding, verdict_on
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_mount_table_options(*words: str, mount_point: str = "/data", **changes: Any) -> Filesystem:
    """Build a filesystem whose mount table shows these superblock options."""
    shown = mount(mount_point, super_options=("rw", *words))
    return filesystem(**{"mounts": (shown,), **changes})


def commands(finding: Finding, phase: Phase) -> list[str]:
    """Return the commands of one phase."""
    return [step.command for step in finding.remedies[0].lines if step.phase is phase]


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.PASS, id="defaults"),
        pytest.param(with_mount_table_options("errors=remount-ro"), Outcome.PASS, id="other words"),
        pytest.param(with_mount_table_options("sync"), Outcome.FAIL, id="sync"),
        pytest.param(with_mount_table_options("dirsync"), Outcome.FAIL, id="dirsync"),
        pytest.param(
            with_mount_table_options("sync", read_only=known(value=True)),
            Outcome.NOT_APPLICABLE,
            id="read-only",
        ),
        pytest.param(filesystem(mounts=(), alive=False), Outcome.NOT_APPLICABLE, id="not mounted"),
        pytest.param(filesystem(mounts=()), Outcome.UNDETERMINED, id="in another namespace"),
        pytest.param(
            with_mount_table_options("sync", read_only=unknown("ro")),
            Outcome.UNDETERMINED,
            id="state not read",
        ),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The mount table lists them among the superblock's options; the options file never does."""
    assert verdict_of(fs).outcome is outcome


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        (("sync",), Severity.MEDIUM),
        (("sync", "dirsync"), Severity.MEDIUM),
        (("dirsync",), Severity.LOW),
    ],
)
def test_sync_is_worse_than_dirsync(words: tuple[str, ...], severity: Severity) -> None:
    """With dirsync only directory changes wait, which some mail servers require."""
    finding = finding_of(with_mount_table_options(*words))
    assert (finding.severity, finding.confidence) == (severity, Confidence.CONFIRMED)
    assert f"/data is mounted with {' and '.join(words)}" in finding.message
    assert finding.fact == ",".join(words)


@pytest.mark.parametrize(
    ("stack", "devices"),
    [
        (
            disk("sdb", DeviceNumber(8, 16)),
            (lsblk_row("sdb", DeviceNumber(8, 16), transport="usb"),),
        ),
        (disk("sdb", DeviceNumber(8, 16), udev=(("ID_BUS", "usb"),)), ()),
        (disk("mmcblk0", DeviceNumber(179, 0)), ()),
    ],
)
def test_removable_media_are_info(stack: BlockDevice, devices: tuple[Any, ...]) -> None:
    """The best-known false positive: people unplug them."""
    finding = finding_of(
        with_mount_table_options("sync", stack=known(stack)), devices=known(devices)
    )
    assert finding.severity is Severity.INFO


def test_unknown_stack_is_not_assumed_removable() -> None:
    """The finding remains without the stack."""
    finding = finding_of(with_mount_table_options("sync", stack=unknown("stack")))
    assert finding.severity is Severity.MEDIUM


def test_remedy_remounts_without_sync_and_edits_fstab() -> None:
    """The remount sets the opposite; fstab would set the flag again at the next boot."""
    finding = finding_of(
        with_mount_table_options("sync", fstab=known((fstab_entry("noatime", "sync"),)))
    )
    assert "persistent: fstab 7: noatime,sync -> noatime" in step_lines(finding.remedies[0].steps)
    finding = finding_of(with_mount_table_options("sync", fstab=known((fstab_entry("sync"),))))
    assert commands(finding, Phase.IMMEDIATE) == [
        "mount -o remount,rw,relatime,async /dev/sda /data"
    ]
    assert "mount -o remount,rw,relatime,sync /dev/sda /data" in commands(finding, Phase.ROLLBACK)
    assert finding.remedies[0].disruption is Disruption.REMOUNT
    assert [c.label for c in finding.citations] == ["mount table", "fstab line 7"]


def test_remedy_of_dirsync_is_a_new_mount() -> None:
    """No remount clears it (6.18, util-linux 2.38)."""
    finding = finding_of(with_mount_table_options("sync", "dirsync"))
    assert commands(finding, Phase.IMMEDIATE) == [
        "umount /data",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    ]
    assert commands(finding, Phase.ROLLBACK) == [
        "umount /data",
        "mount -t ext4 -o rw,relatime,sync,dirsync /dev/sda /data",
    ]
    assert finding.remedies[0].disruption is Disruption.UNMOUNT


@pytest.mark.parametrize(
    ("fs", "disruption", "reported"),
    [
        (with_mount_table_options("dirsync", mount_point="/"), Disruption.REBOOT, "or restart"),
        (
            with_mount_table_options(
                "dirsync", mounts=(mount(super_options=("rw", "dirsync")), mount("/b"))
            ),
            Disruption.UNMOUNT,
            "unmount it everywhere",
        ),
        (
            with_mount_table_options(
                "sync", mounts=(mount("/b", root="/sub", super_options=("rw", "sync")),)
            ),
            Disruption.REMOUNT,
            "which this namespace lacks",
        ),
    ],
)
def test_no_commands_for_the_root_and_several_mounts(
    fs: Filesystem, disruption: Disruption, reported: str
) -> None:
    """The root cannot be unmounted, and other mounts keep the superblock's state."""
    (remedy,) = finding_of(fs).remedies
    assert (remedy.steps, remedy.disruption) == ((), disruption)
    assert reported in remedy.summary


@pytest.mark.parametrize(
    ("mount_point", "flags", "named"),
    [
        ("/", "sync", True),
        ("/", "noatime,dirsync", True),
        ("/", "noatime", False),
        ("/data", "sync", False),
    ],
)
def test_remedy_names_rootflags(mount_point: str, flags: str, *, named: bool) -> None:
    """The kernel mounts only the root with them, before fstab is read."""
    boot = known(("quiet", f"rootflags={flags}"), "/proc/cmdline")
    finding = finding_of(
        with_mount_table_options("sync", mount_point=mount_point), kernel_arguments=boot
    )
    assert ("rootflags=" in finding.remedies[0].summary) is named
    cited = {citation.label: citation.value for citation in finding.citations}
    assert cited.get("rootflags") == (flags if named else None)


# sync is cleared by a remount, dirsync by a new mount.
SYNC, DIRSYNC, BOTH = "without sync.", "without dirsync.", "without sync and dirsync."
REMEDY_CASES = (
    RemedyCase("sync, set by fstab", SYNC, mount="sync", fstab="sync,relatime"),
    RemedyCase("sync, set by hand", SYNC, mount="sync,nosuid"),
    RemedyCase("sync, fstab says defaults", SYNC, mount="sync,noatime", fstab="defaults"),
    RemedyCase("dirsync, set by fstab", DIRSYNC, mount="dirsync", fstab="dirsync"),
    RemedyCase("dirsync, set by hand", DIRSYNC, mount="dirsync,nodev,noauto_da_alloc"),
    RemedyCase("both, set by fstab", BOTH, mount="sync,dirsync", fstab="noatime,sync,dirsync"),
)
