"""journal_async_commit goes by a new mount; the mode of data stays as it was."""

from __future__ import annotations

from support.remedies.case import RemedyCase

SUMMARY = "Mount it without journal_async_commit"

CASES = (
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        fstab="data=writeback,journal_async_commit",
        mount="data=writeback,journal_async_commit",
    ),
    RemedyCase(
        name="by hand",
        remedy=SUMMARY,
        mount="nodev,data=journal,journal_async_commit",
    ),
    RemedyCase(
        name="by the superblock's string",
        remedy=SUMMARY,
        tune=("-E", "mount_opts=journal_async_commit", "-o", "journal_data_writeback"),
        fstab="defaults",
    ),
)
