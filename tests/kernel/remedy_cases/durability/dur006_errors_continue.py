"""errors=remount-ro by remount, kept in the superblock or in fstab."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Make it read-only at the first error"

CASES = (
    RemedyCase(name="by the superblock", remedy=SUMMARY, fstab="defaults"),
    RemedyCase(name="no fstab entry", remedy=SUMMARY, mount="nosuid"),
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        tune=("-e", "remount-ro"),
        fstab="noatime,errors=continue",
        mount="noatime,errors=continue",
    ),
    RemedyCase(
        name="by hand",
        remedy=SUMMARY,
        tune=("-e", "remount-ro"),
        fstab="defaults",
        mount="errors=continue",
    ),
)
