"""HLT001: an error that the kernel was told to record, under errors=continue."""

from __future__ import annotations

from pathlib import Path

from support.remedies.case import RemedyCase, Stage

NOT_RUN = (
    "The root is checked by a boot with fsck.mode=force, which is advice: nothing here can be "
    "rebooted. What HLT002 cures has its commands there."
)


def record_an_error(stage: Stage) -> None:
    """Make the kernel record an error, as it does for broken metadata."""
    name = stage.device.removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test")


CASES = (
    RemedyCase(
        name="mounted by fstab",
        remedy="let e2fsck check it",
        fstab="noatime",
        mount="noatime",
        prepare=record_an_error,
        restores=False,
    ),
    RemedyCase(
        name="mounted as fstab does not say",
        remedy="let e2fsck check it",
        fstab="defaults",
        mount="nosuid,commit=30",
        prepare=record_an_error,
        restores=False,
    ),
    RemedyCase(
        name="without a journal",
        remedy="let e2fsck check it",
        mke2fs=("-O", "^has_journal"),
        prepare=record_an_error,
        restores=False,
    ),
)
