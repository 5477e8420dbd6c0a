"""LAY006: inodes whose timestamps end in 2038."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay006_inode_128_y2038 import check
from support.builders import filesystem, host, known, mount, superblock, unknown
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase


def verdict(fs: Filesystem, *, planned: bool = False) -> Verdict:
    """Judge a filesystem."""
    return judge(check, fs, host(fs, planned=planned))


def with_128_byte_inodes(*points: str, **changes: Any) -> Filesystem:
    """Build a filesystem with 128-byte inodes."""
    held = superblock(inode_bytes=128, **changes)
    mounts = tuple(mount(point) for point in points or ("/data",))
    return filesystem(superblock=known(held), mounts=mounts)


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (filesystem(), Outcome.PASS),
        (filesystem(superblock=known(superblock(inode_bytes=512))), Outcome.PASS),
        (with_128_byte_inodes(), Outcome.FAIL),
        # Some years of default installs had this; all files are replaced with every kernel.
        (with_128_byte_inodes("/boot"), Outcome.NOT_APPLICABLE),
        (with_128_byte_inodes("/boot/rescue"), Outcome.NOT_APPLICABLE),
        (filesystem(superblock=known(superblock(inode_bytes=0))), Outcome.NOT_APPLICABLE),
        (filesystem(superblock=known(superblock(inode_bytes=None))), Outcome.UNDETERMINED),
        (filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED),
    ],
    ids=["256", "512", "128", "boot", "below boot", "nonsense", "not stated", "not read"],
)
def test_lay006_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Only the superblock has the inode size."""
    assert verdict(fs).outcome is outcome


def found(fs: Filesystem, *, planned: bool = False) -> Finding:
    """Return the finding of a filesystem."""
    (finding,) = verdict(fs, planned=planned).findings
    return finding


@pytest.mark.parametrize(
    ("points", "planned", "severity"),
    [
        (("/data",), False, Severity.LOW),
        (("/boot", "/srv"), False, Severity.LOW),
        (("/bootleg",), False, Severity.LOW),
        (("/data",), True, Severity.HIGH),
        (("/boot",), True, Severity.LOW),
    ],
)
def test_lay006_severity(points: tuple[str, ...], planned: bool, severity: Severity) -> None:
    """A plan costs nothing to correct, and timestamps in /boot do not matter."""
    assert found(with_128_byte_inodes(*points), planned=planned).severity is severity


@pytest.mark.parametrize(
    ("feature", "revision"),
    [
        ("flex_bg", 1),
        ("metadata_csum", 1),
        ("bigalloc", 1),
        ("mmp", 1),
        ("inline_data", 1),
        ("FEATURE_I31", 1),
        ("dir_index", 0),
        ("dir_index", None),
    ],
)
def test_lay006_no_command_with_unsupported_features(feature: str, revision: int | None) -> None:
    """tune2fs 1.47.0 refuses flex_bg and damages others; for newer features nothing is known."""
    features = frozenset({"has_journal", feature})
    (remedy,) = found(with_128_byte_inodes(features=features, revision=revision)).remedies
    assert (remedy.steps, remedy.disruption, remedy.destructive) == ((), Disruption.RECREATE, True)


def test_lay006_commands_for_an_ext3_filesystem() -> None:
    """The filesystem is checked before and after, and there is no rollback."""
    (remedy,) = found(
        with_128_byte_inodes(features=frozenset({"has_journal", "dir_index"}), revision=1)
    ).remedies
    commands = [step.command for step in remedy.lines]
    assert sum("|| tune2fs -I 256 /dev/sda" in command for command in commands) == 1
    assert sum("e2fsck" in command for command in commands) == 2
    assert all(step.phase is not Phase.ROLLBACK for step in remedy.lines)


# Inodes are enlarged in place if possible.
FILES = 200


def create_files(loop_mount: LoopMount) -> None:
    """Create files, so that there are inodes to move."""
    for number in range(FILES):
        (loop_mount.mount_point / f"file{number}").write_bytes(b"x" * 5000)
    run("sync", "-f", loop_mount.mount_point)


REMEDY_CASES = (
    RemedyCase(
        name="made as ext3",
        remedy="in place",
        mke2fs=("-I", "128"),
        mkfs_type="ext3",
        fstab="noatime",
        mount="noatime",
        prepare=create_files,
        restores=False,
    ),
    RemedyCase(
        name="ext4 without flex_bg and checksums, not mounted",
        remedy="in place",
        mke2fs=("-I", "128", "-O", "^flex_bg,^metadata_csum"),
        mounted=False,
        restores=False,
    ),
)
REMEDIES_NOT_RUN = "To recreate a filesystem is advice without commands."
