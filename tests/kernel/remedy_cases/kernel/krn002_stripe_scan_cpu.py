"""KRN002 on real filesystems: the stripe in the superblock, in fstab, and by remount alone.

Judged as if Linux 6.6.9 ran; the commands are the same on every kernel.
"""

from __future__ import annotations

from support.remedies.case import RemedyCase, on_kernel

OFF = "Turn the stripe off"
ON_6_6 = on_kernel("6.6.9")

CASES = (
    RemedyCase(
        name="stripe in the superblock, no fstab",
        remedy=OFF,
        mke2fs=("-E", "stride=16,stripe_width=64"),
        alter=ON_6_6,
    ),
    RemedyCase(
        name="stripe in the superblock, fstab of defaults",
        remedy=OFF,
        mke2fs=("-E", "stride=16,stripe_width=64"),
        fstab="noatime",
        mount="noatime",
        alter=ON_6_6,
    ),
    RemedyCase(
        name="stripe in fstab",
        remedy=OFF,
        mount="noatime,stripe=48",
        fstab="noatime,stripe=48",
        alter=ON_6_6,
    ),
    RemedyCase(
        name="stripe in both, with different numbers",
        remedy=OFF,
        mke2fs=("-E", "stride=16,stripe_width=64"),
        mount="nodev,stripe=48",
        fstab="nodev,stripe=48",
        alter=ON_6_6,
    ),
    RemedyCase(name="stripe of a mount by hand", remedy=OFF, mount="stripe=48", alter=ON_6_6),
)
