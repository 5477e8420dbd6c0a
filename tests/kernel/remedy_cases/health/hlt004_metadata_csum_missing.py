"""HLT004: checksums are turned on, and the features are as before after the way back."""

from __future__ import annotations

from support.remedies.case import RemedyCase

REMEDY = "Turn checksums on"
CASES = (
    RemedyCase(
        name="mounted",
        remedy=REMEDY,
        mke2fs=("-O", "^metadata_csum"),
        fstab="noatime",
        mount="noatime",
    ),
    RemedyCase(
        name="with uninit_bg, as mke2fs 1.42 made it",
        remedy=REMEDY,
        mke2fs=("-O", "^metadata_csum,^64bit,uninit_bg"),
        mounted=False,
    ),
)
