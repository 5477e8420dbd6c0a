"""HLT002: an error under errors=remount-ro, and a shutdown: neither is undone by a remount."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from support.remedies.case import RemedyCase, Stage

NOT_RUN = (
    "The root is checked by a boot with fsck.mode=force, which is advice: nothing here can be "
    "rebooted."
)
SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN (include/uapi/linux/ext4.h)."""
WITHOUT_FLUSHING = 2


def stop_by_an_error(stage: Stage) -> None:
    """Make the kernel find an error, and see that nothing can be written from then on."""
    name = stage.device.removeprefix("/dev/")
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test")
    refuses(stage)


def shut_down(stage: Stage) -> None:
    """Shut the filesystem down, as a device that goes away does."""
    directory = os.open(stage.mount_point, os.O_RDONLY)
    try:
        fcntl.ioctl(directory, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
    finally:
        os.close(directory)
    refuses(stage)


def refuses(stage: Stage) -> None:
    """Fail unless a write is refused."""
    try:
        (stage.mount_point / "probe").write_text("")
    except OSError:
        return
    raise AssertionError("it still writes")


CASES = (
    RemedyCase(
        name="an error, mounted by fstab",
        remedy="let e2fsck check it",
        fstab="errors=remount-ro,noatime",
        mount="errors=remount-ro,noatime",
        prepare=stop_by_an_error,
        restores=False,
    ),
    RemedyCase(
        name="an error, no fstab entry",
        remedy="let e2fsck check it",
        tune=("-e", "remount-ro"),
        mount="nodev,commit=30",
        prepare=stop_by_an_error,
        restores=False,
    ),
    RemedyCase(
        name="a shutdown",
        remedy="let e2fsck check it",
        mount="nosuid",
        fstab="nosuid",
        prepare=shut_down,
        restores=False,
    ),
)
