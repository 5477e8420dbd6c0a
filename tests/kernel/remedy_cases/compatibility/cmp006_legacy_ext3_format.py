"""ext3 becomes ext4 in place: nothing takes that back."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage


def write(stage: Stage) -> None:
    """Write a file whose blocks stay mapped one by one."""
    (stage.mount_point / "old").write_bytes(b"x" * (20 << 20))


SUMMARY = "In place, after a backup"
CASES = (
    RemedyCase(
        "mounted as ext3, by fstab",
        SUMMARY,
        size="2G",
        mkfs_type="ext3",
        mount_type="ext3",
        mount="noatime",
        fstab="noatime",
        prepare=write,
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
