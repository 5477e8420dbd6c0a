"""KRN003 on real filesystems, judged as if Linux 5.15.20 ran: the feature is taken away."""

from __future__ import annotations

from support.remedies.case import RemedyCase, on_kernel

AWAY = "take fast_commit away"
ON_5_15 = on_kernel("5.15.20")

CASES = (
    RemedyCase(
        name="made with it, no fstab",
        remedy=AWAY,
        mke2fs=("-O", "fast_commit"),
        alter=ON_5_15,
    ),
    RemedyCase(
        name="set by tune2fs, other options in fstab",
        remedy=AWAY,
        tune=("-O", "fast_commit"),
        mount="noatime,commit=10",
        fstab="noatime,commit=10",
        alter=ON_5_15,
    ),
    RemedyCase(
        name="mounted otherwise than fstab says",
        remedy=AWAY,
        mke2fs=("-O", "fast_commit"),
        mount="nosuid,nodev",
        fstab="defaults",
        alter=ON_5_15,
    ),
)
