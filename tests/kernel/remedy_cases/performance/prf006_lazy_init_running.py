"""PRF006: the kernel zeroes inode tables without pauses; nothing makes them dirty again."""

from __future__ import annotations

from support.remedies.case import RemedyCase

REMEDY = "without pauses"
LAZY = ("-E", "lazy_itable_init=1")
CASES = (
    RemedyCase(
        name="put off for ever",
        remedy=REMEDY,
        mke2fs=LAZY,
        size="1G",
        mount="noinit_itable",
        restores=False,
    ),
    RemedyCase(
        name="put off by fstab",
        remedy=REMEDY,
        mke2fs=LAZY,
        size="1G",
        mount="nosuid,noinit_itable",
        fstab="noinit_itable",
        restores=False,
    ),
    RemedyCase(
        name="slowed down",
        remedy=REMEDY,
        mke2fs=LAZY,
        size="2G",
        mount="init_itable=100000",
        restores=False,
    ),
)
