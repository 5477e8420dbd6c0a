"""CAP004: a third level for directories with blocks of 1 KiB; nothing takes it back."""

from __future__ import annotations

from support.remedies.case import RemedyCase

CASES = (
    RemedyCase(
        name="small blocks",
        remedy="a third level",
        mke2fs=("-b", "1024", "-I", "256", "-N", "500000", "-E", "lazy_itable_init=1"),
        size="300M",
        fstab="defaults",
        restores=False,
    ),
)
