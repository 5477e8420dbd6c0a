"""resuid and resgid back to root by remount, in the superblock or in fstab."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Give the reserve back to root"

CASES = (
    RemedyCase(
        name="by the superblock",
        remedy=SUMMARY,
        tune=("-u", "65534", "-g", "65534"),
        fstab="defaults",
    ),
    RemedyCase(name="a user, no fstab entry", remedy=SUMMARY, tune=("-u", "65534"), mount="nodev"),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="resgid=8", fstab="defaults"),
    RemedyCase(name="by fstab", remedy=SUMMARY, fstab="resuid=65534", mount="resuid=65534"),
)
