"""LAY006: inodes are enlarged in place where that is possible."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

FILES = 200


def fill(stage: Stage) -> None:
    """Make files, so that there are inodes to be moved."""
    for number in range(FILES):
        (stage.mount_point / f"file{number}").write_bytes(b"x" * 5000)
    run("sync", "-f", stage.mount_point)


CASES = (
    RemedyCase(
        name="made as ext3",
        remedy="in place",
        mke2fs=("-I", "128"),
        mkfs_type="ext3",
        fstab="noatime",
        mount="noatime",
        prepare=fill,
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
NOT_RUN = "To recreate a filesystem is advice without commands."
