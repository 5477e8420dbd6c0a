"""HLT004: metadata without checksums."""

from __future__ import annotations

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.health.hlt004_metadata_csum_missing import check
from support.builders import GIB, filesystem, host, known, superblock, unknown
from support.remedies.case import LoopMount, RemedyCase

FEATURES_WITHOUT_CHECKSUMS = frozenset({"has_journal", "extent", "64bit", "flex_bg"})


def without_checksums(
    *features: str, size_gib: int = 100, without: frozenset[str] = frozenset()
) -> Filesystem:
    """Build a filesystem without checksums."""
    held = superblock(
        features=(FEATURES_WITHOUT_CHECKSUMS | set(features)) - without,
        size_blocks=size_gib * GIB // 4096,
    )
    return filesystem(superblock=known(held), fstab=known(()))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (filesystem(), Outcome.PASS),
        (without_checksums(), Outcome.FAIL),
        (without_checksums("uninit_bg"), Outcome.FAIL),
        (without_checksums(without=frozenset({"extent"})), Outcome.NOT_APPLICABLE),
        (filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED),
    ],
    ids=["default", "without", "group checksums only", "ext3", "not read"],
)
def test_hlt004_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The feature decides; filesystems made as ext3 are not judged."""
    assert judge(check, fs, host(fs)).outcome is outcome


def found(fs: Filesystem, *, planned: bool = False) -> Finding:
    """Return the finding of a filesystem."""
    (finding,) = judge(check, fs, host(fs, planned=planned)).findings
    return finding


@pytest.mark.parametrize(
    ("size_gib", "severity"), [(100, Severity.INFO), (1024, Severity.INFO), (1025, Severity.LOW)]
)
def test_hlt004_severity_by_size(size_gib: int, severity: Severity) -> None:
    """RHEL 7 creates all filesystems without the feature."""
    assert found(without_checksums(size_gib=size_gib)).severity is severity


@pytest.mark.parametrize(
    ("fs", "back"),
    [
        (without_checksums(), "^metadata_csum,^uninit_bg"),
        (without_checksums("uninit_bg"), "^metadata_csum"),
    ],
    ids=["none", "uninit_bg"],
)
def test_hlt004_rollback_restores_the_features(fs: Filesystem, back: str) -> None:
    """When tune2fs clears metadata_csum, it sets uninit_bg instead."""
    (remedy,) = found(fs).remedies
    undo = [step.command for step in remedy.lines if step.phase is Phase.ROLLBACK]
    check = "test ! -e /sys/fs/ext4/sda && { e2fsck -f -p /dev/sda || test $? -eq 1; }"
    assert undo == [
        "umount /data",
        f"{check} && tune2fs -O {back} /dev/sda",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    ]


def test_hlt004_message_for_32_byte_descriptors() -> None:
    """Without 64bit there is room for only half of each checksum."""
    assert "resize2fs -b" not in found(without_checksums()).remedies[0].summary
    assert (
        "resize2fs -b" in found(without_checksums(without=frozenset({"64bit"}))).remedies[0].summary
    )


def test_hlt004_remedy_in_a_plan_is_the_mkfs_option() -> None:
    """Nothing has to be unmounted."""
    (remedy,) = found(without_checksums(), planned=True).remedies
    assert (remedy.disruption, remedy.steps) == (Disruption.ONLINE, ())


# Checksums are turned on, and the rollback restores the features.
REMEDY = "Turn on metadata checksums"


def fill_directory(loop_mount: LoopMount) -> None:
    """Fill directory blocks to the last byte, each with 50 names of 12 bytes."""
    folder = loop_mount.mount_point / "full"
    folder.mkdir()
    for number in range(2000):
        (folder / f"{number:012d}").touch()


REMEDY_CASES = (
    RemedyCase(
        name="mounted",
        remedy=REMEDY,
        mke2fs=("-O", "^metadata_csum"),
        fstab="noatime",
        mount="noatime",
    ),
    RemedyCase(
        name="directories without room for a checksum",
        remedy=REMEDY,
        mke2fs=("-b", "1024", "-O", "^metadata_csum"),
        prepare=fill_directory,
    ),
    RemedyCase(
        name="with uninit_bg, as mke2fs 1.42 made it",
        remedy=REMEDY,
        mke2fs=("-O", "^metadata_csum,^64bit,uninit_bg"),
        mounted=False,
    ),
)
