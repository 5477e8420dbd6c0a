"""sync goes by a remount, dirsync by a new mount."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SYNC, DIRSYNC, BOTH = "without sync.", "without dirsync.", "without sync and dirsync."
CASES = (
    RemedyCase("sync, set by fstab", SYNC, mount="sync", fstab="sync,relatime"),
    RemedyCase("sync, set by hand", SYNC, mount="sync,nosuid"),
    RemedyCase("sync, fstab says defaults", SYNC, mount="sync,noatime", fstab="defaults"),
    RemedyCase("dirsync, set by fstab", DIRSYNC, mount="dirsync", fstab="dirsync"),
    RemedyCase("dirsync, set by hand", DIRSYNC, mount="dirsync,nodev,noauto_da_alloc"),
    RemedyCase("both, set by fstab", BOTH, mount="sync,dirsync", fstab="noatime,sync,dirsync"),
)
