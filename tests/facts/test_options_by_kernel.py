"""The mount options that ext4 accepts, by kernel version."""

from __future__ import annotations

import pytest

from ext4audit.facts.options import (
    Handling,
    all_options,
    ext4_options,
    handling_of,
    is_refused_for,
    needs_journal,
)

SHOWN_ONLY = frozenset({"emergency_ro", "shutdown"})
"""States that the kernel prints but that are not given as options."""


@pytest.mark.parametrize(
    ("option", "upstream", "handling"),
    [
        ("nodioread_nolock", (4, 19, 222), Handling.REFUSED),
        ("nodioread_nolock", (5, 4, 286), Handling.REFUSED),
        ("nodioread_nolock", (5, 5, 0), Handling.NOT_KNOWN),
        ("nodioread_nolock", (5, 6, 0), Handling.TAKEN),
        ("noacl", (5, 15, 100), Handling.TAKEN),
        ("noacl", (5, 18, 0), Handling.NOT_KNOWN),
        ("noacl", (6, 1, 0), Handling.REFUSED),
        ("i_version", (5, 10, 262), Handling.TAKEN),
        ("i_version", (5, 17, 0), Handling.NOT_KNOWN),
        ("i_version", (7, 2, 13), Handling.IGNORED),
        ("no_prefetch_block_bitmaps", (5, 10, 262), Handling.REFUSED),
        ("no_prefetch_block_bitmaps", (5, 12, 19), Handling.REFUSED),
        ("no_prefetch_block_bitmaps", (5, 14, 0), Handling.TAKEN),
        ("mb_optimize_scan=0", (5, 12, 19), Handling.REFUSED),
        ("mb_optimize_scan=0", (5, 14, 0), Handling.TAKEN),
        ("prefetch_block_bitmaps", (5, 10, 262), Handling.TAKEN),
        ("prefetch_block_bitmaps", (5, 14, 0), Handling.IGNORED),
        ("prefetch_block_bitmaps", (6, 1, 0), Handling.IGNORED),
        ("warn_on_error", (3, 10, 0), Handling.NOT_KNOWN),
        ("nobh", (4, 14, 0), Handling.IGNORED),
        ("stripe=0", (6, 18, 0), Handling.IGNORED),
        ("stripe=0x0", (6, 18, 0), Handling.IGNORED),
        ("stripe=64", (6, 18, 0), Handling.TAKEN),
        ("bogus_opt=1", (6, 18, 0), Handling.REFUSED),
        ("commit=x", (6, 18, 0), Handling.REFUSED),
        ("commit", (6, 18, 0), Handling.REFUSED),
        ("commit=0x1e", (6, 18, 0), Handling.TAKEN),
        ("delalloc=1", (6, 18, 0), Handling.REFUSED),
        ("barrier=0", (6, 18, 0), Handling.TAKEN),
        ("barrier", (6, 18, 0), Handling.TAKEN),
        ("data=foo", (6, 18, 0), Handling.REFUSED),
        ("data", (6, 18, 0), Handling.REFUSED),
        ("dax", (6, 18, 0), Handling.TAKEN),
        ("dax", (5, 4, 286), Handling.TAKEN),
        ("dax=always", (5, 4, 286), Handling.REFUSED),
        ("dax=never", (5, 7, 19), Handling.REFUSED),
        ("dax=inode", (5, 8, 0), Handling.TAKEN),
        ("usrjquota=", (6, 18, 0), Handling.TAKEN),
        ("usrjquota", (6, 18, 0), Handling.REFUSED),
        ("stripe=4294967296", (6, 18, 0), Handling.REFUSED),
        ("stripe=4294967295", (6, 18, 0), Handling.TAKEN),
        ("stripe=4294967295", (5, 15, 0), Handling.NOT_KNOWN),
        ("stripe=4294967295", (5, 10, 30), Handling.REFUSED),
        ("stripe=2147483647", (5, 10, 30), Handling.TAKEN),
        ("stripe=08", (6, 18, 0), Handling.REFUSED),
        ("resuid=4294967295", (6, 18, 0), Handling.REFUSED),
        ("inode_readahead_blks=040", (6, 18, 0), Handling.TAKEN),
        ("inode_readahead_blks=2147483648", (6, 18, 0), Handling.REFUSED),
        ("inode_readahead_blks=33", (6, 18, 0), Handling.REFUSED),
        ("journal_ioprio=8", (6, 18, 0), Handling.REFUSED),
    ],
)
def test_the_version_and_the_value_decide(
    option: str, upstream: tuple[int, ...], handling: Handling
) -> None:
    """Between two kernels that were examined, the answer is unknown."""
    assert handling_of(option, upstream).handling is handling


def test_every_option_that_the_kernel_shows_is_in_the_grammar() -> None:
    """The grammar has all spellings, so that none is rejected as unknown.

    A state as the kernel prints it may still not be an option that it accepts.
    """
    spellings = {option for spec in all_options() for option in (spec.on, spec.off, *spec.aliases)}
    keys = {option.partition("=")[0] for option in spellings if option} - SHOWN_ONLY
    assert keys <= set(ext4_options())


def test_the_type_and_the_journal_count() -> None:
    """ext3 rejects delayed allocation, and a filesystem without a journal rejects a data mode."""
    assert is_refused_for("delalloc", "ext3")
    assert not is_refused_for("delalloc", "ext4")
    assert is_refused_for("commit=30", "ext2")
    assert needs_journal("data=ordered")
    assert not needs_journal("nobarrier")
