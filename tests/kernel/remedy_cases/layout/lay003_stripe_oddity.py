"""LAY003: an odd stripe from the superblock, from fstab, and by remount."""

from __future__ import annotations

from support.remedies.case import RemedyCase, Stage
from support.scratch import run

OFF = "Turn the stripe off"


def larger_than_a_group(stage: Stage) -> None:
    """Ask for a stripe that a mount refuses and a remount takes."""
    run("mount", "-o", "remount,stripe=65536", stage.mount_point)


CASES = (
    RemedyCase(
        name="65535 sectors in the superblock",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stride=8191,stripe_width=8191"),
    ),
    RemedyCase(
        name="only a stride, and a zero in fstab that does nothing",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stride=8191"),
        mount="stripe=0",
        fstab="stripe=0,nofail",
    ),
    RemedyCase(
        name="no multiple of the stride, and fstab asks for it",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stride=16,stripe_width=24"),
        mount="stripe=24,noatime",
        fstab="noatime,stripe=24",
    ),
    RemedyCase(name="by a remount", remedy=OFF, mke2fs=("-b", "4096"), prepare=larger_than_a_group),
    RemedyCase(
        name="not mounted",
        remedy=OFF,
        mke2fs=("-b", "4096", "-E", "stripe_width=8191"),
        mounted=False,
    ),
)
