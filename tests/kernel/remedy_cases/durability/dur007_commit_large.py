"""commit=5 by remount, and out of whatever set the interval."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Return to the default of 5 seconds"

CASES = (
    RemedyCase(name="by fstab", remedy=SUMMARY, fstab="commit=600", mount="commit=600"),
    RemedyCase(
        name="by the superblock's string", remedy=SUMMARY, tune=("-E", "mount_opts=commit=60")
    ),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="nodev,commit=60"),
)
