"""SEC002: flags that a remount by device and directory dropped."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

REMEDY = "on this mount again"


def remount_by_device(stage: Stage) -> None:
    """Do what loses the flags: mount(8) does not read fstab when both names are given."""
    run("mount", "-o", "remount,commit=30", stage.device, stage.mount_point)


CASES = (
    RemedyCase(
        name="lost by a remount",
        remedy=REMEDY,
        fstab="nosuid,nodev,noexec,noatime",
        mount="nosuid,nodev,noexec,noatime",
        prepare=remount_by_device,
    ),
    RemedyCase(
        name="nothing else of fstab takes effect",
        remedy=REMEDY,
        fstab="nodev,nosuid,noatime,nobarrier,data=writeback",
        mount="nodev,strictatime,sync",
    ),
    RemedyCase(name="read-only", remedy=REMEDY, fstab="ro,noexec", mount="ro"),
    RemedyCase(name="what user implies", remedy=REMEDY, fstab="user", mount="nosuid,nodev"),
)
