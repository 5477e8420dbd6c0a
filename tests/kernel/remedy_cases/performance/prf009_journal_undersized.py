"""PRF009: the journal is replaced by a larger one, and the small one is made again."""

from __future__ import annotations

from support.remedies.case import RemedyCase

REMEDY = "Replace the journal"
CASES = (
    RemedyCase(
        name="mounted",
        remedy=REMEDY,
        mke2fs=("-J", "size=4"),
        size="21G",
        fstab="noatime",
        mount="noatime",
    ),
    RemedyCase(
        name="not mounted, with an orphan file",
        remedy=REMEDY,
        mke2fs=("-J", "size=8", "-O", "orphan_file"),
        size="21G",
        mounted=False,
    ),
    RemedyCase(
        name="fast commits, whose journal cannot be made the same again",
        remedy=REMEDY,
        mke2fs=("-J", "size=8", "-O", "fast_commit"),
        size="21G",
        mounted=False,
        restores=False,
    ),
)
