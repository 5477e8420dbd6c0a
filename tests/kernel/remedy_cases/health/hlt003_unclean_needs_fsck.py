"""HLT003: what a crash leaves, as a copy of a mounted filesystem has it."""

from __future__ import annotations

from pathlib import Path

from support.remedies.case import RemedyCase, Stage
from support.scratch import run


def crash(stage: Stage) -> None:
    """Write, and put what stands on the device at that moment in its place after the unmount."""
    stage.mount()
    (stage.mount_point / "file").write_text("text" * 10000)
    open_file = (stage.mount_point / "deleted").open("w")
    open_file.write("text")
    (stage.mount_point / "deleted").unlink()
    run("sync", "-f", stage.mount_point)
    run("cp", "--reflink=never", stage.device, f"{stage.image}.crashed")
    open_file.close()
    stage.unmount()
    run("dd", f"if={stage.image}.crashed", f"of={stage.device}", "bs=1M", "conv=fsync")


def record_errors(stage: Stage) -> None:
    """Leave a filesystem that was unmounted after the kernel had recorded an error."""
    stage.mount()
    name = stage.device.removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test")
    stage.unmount()


CASES = (
    RemedyCase(
        name="crashed",
        remedy="Let e2fsck",
        mounted=False,
        prepare=crash,
        restores=False,
    ),
    RemedyCase(
        name="crashed, with an orphan file",
        remedy="Let e2fsck",
        mke2fs=("-O", "orphan_file"),
        mounted=False,
        prepare=crash,
        restores=False,
    ),
    RemedyCase(
        name="without a journal, crashed",
        remedy="Let e2fsck",
        mke2fs=("-O", "^has_journal"),
        mounted=False,
        prepare=crash,
        restores=False,
    ),
    RemedyCase(
        name="errors on record",
        remedy="Let e2fsck",
        mounted=False,
        prepare=record_errors,
        restores=False,
    ),
)
