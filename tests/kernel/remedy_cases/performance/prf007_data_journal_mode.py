"""Back from data=journal to data=ordered; what the mode turned off comes back with it."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Return to data=ordered"

CASES = (
    RemedyCase(
        name="by fstab", remedy=SUMMARY, fstab="noatime,data=journal", mount="noatime,data=journal"
    ),
    RemedyCase(
        name="by the superblock's bits",
        remedy=SUMMARY,
        tune=("-o", "journal_data"),
        mount="nosuid",
    ),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="nosuid,data=journal"),
)
