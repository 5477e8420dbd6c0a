"""CMP006: the ext3 on-disk format."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.compatibility.cmp006_legacy_ext3_format import check
from support.builders import (
    GIB,
    disk,
    filesystem,
    fstab_entry,
    known,
    mount,
    superblock,
    unknown,
)
from support.judging import only_finding, verdict_on
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.steps_as_text import step_lines

EXT3 = frozenset({"has_journal", "dir_index", "sparse_super", "large_file"})


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def ext3_format(kind: str = "ext3", *, mount_point: str = "/data", **changes: Any) -> Filesystem:
    """Build a filesystem of this type in the ext3 format."""
    values = {
        "fstype": known(kind),
        "mounts": (mount(mount_point, fstype=kind),),
        "superblock": known(superblock(features=EXT3), "dumpe2fs -h /dev/sda"),
        "fstab": known((fstab_entry(fstype=kind, mount_point=mount_point),)),
    }
    return filesystem(**{**values, **changes})


def commands(finding: Finding, phase: Phase) -> list[str]:
    """Return the commands of the in-place remedy."""
    return [step.command for step in finding.remedies[1].lines if step.phase is phase]


SMALL_DISK = known(disk(size_sectors=known(GIB // 512)))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.PASS, id="ext4"),
        pytest.param(filesystem(stack=SMALL_DISK), Outcome.PASS, id="ext4, small"),
        pytest.param(ext3_format("ext3"), Outcome.FAIL, id="ext3"),
        pytest.param(ext3_format("ext2"), Outcome.FAIL, id="ext2"),
        pytest.param(
            ext3_format(superblock=unknown("superblock")), Outcome.FAIL, id="ext3 without root"
        ),
        pytest.param(ext3_format("ext4"), Outcome.FAIL, id="ext4 without extents"),
        pytest.param(
            ext3_format(alive=False, mounts=(), fstype=unknown("type")),
            Outcome.FAIL,
            id="not mounted",
        ),
        pytest.param(
            ext3_format("ext2", mount_point="/boot"), Outcome.NOT_APPLICABLE, id="Debian's /boot"
        ),
        pytest.param(ext3_format("ext3", stack=SMALL_DISK), Outcome.NOT_APPLICABLE, id="small"),
        pytest.param(
            filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED, id="needs root"
        ),
        pytest.param(ext3_format(fstype=unknown("type")), Outcome.UNDETERMINED, id="type unread"),
        pytest.param(ext3_format(stack=unknown("stack")), Outcome.UNDETERMINED, id="size unread"),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Large filesystems that are ext3 by type or by format are findings."""
    assert verdict_of(fs).outcome is outcome


@pytest.mark.parametrize(("read_only", "severity"), [(False, Severity.LOW), (True, Severity.INFO)])
def test_system_image_that_is_only_read_is_info(*, read_only: bool, severity: Severity) -> None:
    """The verified root of an appliance is an ext2 whose files nobody truncates."""
    finding = finding_of(ext3_format("ext2", read_only=known(value=read_only)))
    assert finding.severity is severity
    assert ("as soon as it is mounted writable" in finding.message) is read_only


def test_mount_type_is_visible_without_root() -> None:
    """A mount as ext3 also means that there is no delayed allocation."""
    finding = finding_of(ext3_format(superblock=unknown("superblock")))
    assert (finding.severity, finding.confidence) == (Severity.LOW, Confidence.CONFIRMED)
    assert "mounted as ext3" in finding.message
    assert "100 GiB" in finding.message
    assert [c.value for c in finding.citations] == ["ext3", "ext3"]


def test_remedy_changes_fstab_before_the_features() -> None:
    """ext4 mounts it with and without the features, and extents cannot be removed again."""
    finding = finding_of(ext3_format())
    assert step_lines(finding.remedies[1].steps)[0] == "persistent: fstab 7: ext3 -> ext4"
    assert commands(finding, Phase.IMMEDIATE) == [
        "umount /data",
        (
            "test ! -e /sys/fs/ext4/sda && tune2fs -O extent,uninit_bg /dev/sda && "
            "{ e2fsck -f -p /dev/sda || test $? -eq 1; }"
        ),
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    ]
    assert commands(finding, Phase.ROLLBACK) == []
    assert finding.remedies[1].disruption is Disruption.UNMOUNT


def test_remedy_does_not_combine_metadata_csum_and_uninit_bg() -> None:
    """metadata_csum and uninit_bg exclude each other."""
    features = EXT3 | {"metadata_csum"}
    finding = finding_of(ext3_format("ext4", superblock=known(superblock(features=features))))
    assert "tune2fs -O extent /dev/sda" in commands(finding, Phase.IMMEDIATE)[1]


def test_remedy_remounts_a_manual_mount_as_ext4() -> None:
    """Without an fstab entry the mount command names the type."""
    finding = finding_of(ext3_format(fstab=known(())))
    assert commands(finding, Phase.IMMEDIATE)[2] == ("mount -t ext4 -o rw,relatime /dev/sda /data")


def test_root_remedy_requires_a_rescue_system() -> None:
    """The root cannot be unmounted."""
    (_, in_place) = finding_of(ext3_format(mount_point="/")).remedies
    assert (in_place.steps, "rescue system" in in_place.summary) == ((), True)


# Ext3 becomes ext4 in place, without a rollback.
def write_file(loop_mount: LoopMount) -> None:
    """Write a file whose blocks remain mapped individually."""
    (loop_mount.mount_point / "old").write_bytes(b"x" * (20 << 20))


SUMMARY = "In place, after a backup"
REMEDY_CASES = (
    RemedyCase(
        "mounted as ext3, by fstab",
        SUMMARY,
        size="2G",
        mkfs_type="ext3",
        mount_type="ext3",
        mount="noatime",
        fstab="noatime",
        prepare=write_file,
        restores=False,
    ),
    RemedyCase(
        "mounted as ext3 by hand",
        SUMMARY,
        size="2G",
        mkfs_type="ext3",
        mount_type="ext3",
        restores=False,
    ),
    RemedyCase(
        "mounted as ext2",
        SUMMARY,
        size="2G",
        mkfs_type="ext2",
        mount_type="ext2",
        fstab="defaults",
        restores=False,
    ),
    RemedyCase(
        "ext4 without extents",
        SUMMARY,
        size="2G",
        mke2fs=("-O", "^extent,^64bit"),
        restores=False,
    ),
)
