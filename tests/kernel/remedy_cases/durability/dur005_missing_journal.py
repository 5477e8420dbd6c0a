"""DUR005: a journal is made, and taken out again."""

from __future__ import annotations

from support.remedies.case import RemedyCase

CASES = (
    RemedyCase(
        name="mounted",
        remedy="Make a journal",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        fstab="noatime",
        mount="noatime",
    ),
    RemedyCase(
        name="mounted as fstab does not say",
        remedy="Make a journal",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        fstab="defaults",
        mount="nosuid,noatime",
    ),
    RemedyCase(
        name="not mounted",
        remedy="Make a journal",
        mke2fs=("-O", "^has_journal"),
        size="2G",
        mounted=False,
    ),
)
