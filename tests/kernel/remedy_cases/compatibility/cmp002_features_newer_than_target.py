"""CMP002: the features are taken out, and the rollback puts them back."""

from __future__ import annotations

from support.remedies.case import RemedyCase, on_kernel

CASES = (
    RemedyCase(
        name="orphan_file, mounted",
        remedy="Take orphan_file out",
        mke2fs=("-O", "orphan_file"),
        mount="noatime",
        fstab="noatime",
        alter=on_kernel("5.4.0-150-generic"),
    ),
    RemedyCase(
        name="metadata_csum_seed, not mounted",
        remedy="Take metadata_csum_seed out",
        mke2fs=("-O", "metadata_csum_seed"),
        mounted=False,
        alter=on_kernel("4.1.0-1-amd64"),
    ),
    RemedyCase(
        name="fast_commit, mounted",
        remedy="Take fast_commit out",
        mke2fs=("-O", "fast_commit"),
        alter=on_kernel("5.4.0-150-generic"),
    ),
)
