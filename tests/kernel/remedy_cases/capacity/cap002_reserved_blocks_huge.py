"""CAP002: large filesystems on sparse images, mounted while their reserve is changed."""

from __future__ import annotations

from support.remedies.case import RemedyCase

LARGE = ("-J", "size=16", "-E", "lazy_itable_init=1,lazy_journal_init=1")

CASES = (
    RemedyCase(
        name="mke2fs's 5 %", remedy="Reserve 1 GiB", mke2fs=LARGE, size="104G", fstab="defaults"
    ),
    RemedyCase(
        name="more than 50 GiB",
        remedy="Reserve 16.5 GiB",
        mke2fs=(*LARGE, "-m", "3.5", "-T", "largefile4"),
        size="1650G",
    ),
)
