"""CAP003: small filesystems on a device of 9 TiB, which is a sparse file."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

NARROW = ("-O", "^64bit")


def enlarge(stage: Stage) -> None:
    """Make the device larger than half of what 32 bits reach."""
    run("truncate", "-s", "9T", stage.image)
    run("losetup", "--set-capacity", stage.device)


CASES = (
    RemedyCase(
        name="mounted by fstab",
        remedy="convert it to 64 bits",
        mke2fs=NARROW,
        mount="noatime",
        fstab="noatime",
        prepare=enlarge,
    ),
    RemedyCase(
        name="mounted by hand",
        remedy="convert it to 64 bits",
        mke2fs=NARROW,
        mount="nosuid,commit=30",
        prepare=enlarge,
    ),
    RemedyCase(
        name="not mounted",
        remedy="convert it to 64 bits",
        mke2fs=NARROW,
        mounted=False,
        prepare=enlarge,
    ),
)
