"""The feature is set while it is mounted; e2fsck -D indexes what is there already."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run_shell

ONLINE, ALL = "grow from now on", "index all directories"
WITHOUT = ("-O", "^dir_index")


def fill(stage: Stage) -> None:
    """Make a directory of many blocks, which has no index."""
    folder = stage.mount_point / "many"
    folder.mkdir()
    run_shell(f"cd '{folder}' && seq -f a_rather_long_name_that_fills_blocks_%g 2000 | xargs touch")


CASES = (
    RemedyCase("online", ONLINE, mke2fs=WITHOUT, size="2G", fstab="defaults", prepare=fill),
    RemedyCase("online, ext3", ONLINE, mke2fs=WITHOUT, size="2G", mkfs_type="ext3"),
    RemedyCase("all directories", ALL, mke2fs=WITHOUT, size="2G", prepare=fill, restores=False),
    RemedyCase("not mounted", ALL, mke2fs=WITHOUT, size="2G", mounted=False, restores=False),
)
