"""auto_da_alloc by remount, and noauto_da_alloc out of whatever set it."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Turn auto_da_alloc on"

CASES = (
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        fstab="noatime,auto_da_alloc=0",
        mount="noatime,noauto_da_alloc",
    ),
    RemedyCase(
        name="by the superblock's string",
        remedy=SUMMARY,
        tune=("-E", "mount_opts=noauto_da_alloc"),
        fstab="defaults",
    ),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="nosuid,noauto_da_alloc"),
)
