"""Back to data=ordered: unmounted, with what set data=writeback corrected before."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

SUMMARY = "Return to data=ordered"


def _store_a_list(stage: Stage) -> None:
    """Write what tune2fs 1.47.0 cannot: two options into the superblock's string."""
    request = "set_super_value mount_opts data=writeback,commit=30"
    run("debugfs", "-w", "-R", request, stage.device)
    stage.mount("noexec")


CASES = (
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        fstab="noatime,data=writeback",
        mount="noatime,data=writeback",
    ),
    RemedyCase(
        name="by the superblock's bits",
        remedy=SUMMARY,
        tune=("-o", "journal_data_writeback"),
        fstab="defaults",
    ),
    RemedyCase(
        name="by the superblock's string",
        remedy=SUMMARY,
        tune=("-E", "mount_opts=data=writeback"),
    ),
    RemedyCase(
        name="by a list in the superblock's string",
        remedy=SUMMARY,
        mounted=False,
        prepare=_store_a_list,
    ),
    RemedyCase(
        name="by hand, with flags that fstab does not have",
        remedy=SUMMARY,
        mount="nosuid,noexec,commit=30,data=writeback",
    ),
    RemedyCase(
        name="with journal_async_commit, which ordered refuses",
        remedy=SUMMARY,
        fstab="data=writeback,journal_async_commit",
        mount="data=writeback,journal_async_commit",
    ),
    RemedyCase(
        name="as ext3",
        remedy=SUMMARY,
        mkfs_type="ext3",
        mount_type="ext3",
        fstab="data=writeback",
        mount="data=writeback",
    ),
)
