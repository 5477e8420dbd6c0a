"""The table of options, where booting the kernel has corrected it."""

from __future__ import annotations

import pytest

from ext4audit.facts.options import canonical, recognize, spec_named


@pytest.mark.parametrize(
    ("name", "upstream", "token"),
    [
        ("prefetch_block_bitmaps", (5, 10, 262), ""),
        ("prefetch_block_bitmaps", (5, 12, 0), ""),
        ("prefetch_block_bitmaps", (5, 14, 0), "prefetch_block_bitmaps"),
        ("prefetch_block_bitmaps", (6, 1, 192), "prefetch_block_bitmaps"),
        ("dioread_nolock", (5, 5, 19), "nodioread_nolock"),
        ("dioread_nolock", (5, 10, 262), "dioread_nolock"),
        ("barrier", (7, 2, 13), "barrier"),
        ("barrier", (3, 3, 6), None),
        ("data_err", (6, 12, 95), None),
    ],
)
def test_the_default_of_an_option_by_version(
    name: str, upstream: tuple[int, int, int], token: str | None
) -> None:
    """5.10 rejects `no_prefetch_block_bitmaps` and lists neither token: there is no opposite."""
    assert spec_named(name).default(upstream) == token


def test_nothing_is_no_option() -> None:
    """Two adjacent commas in fstab have an empty option between them."""
    assert recognize("") is None


@pytest.mark.parametrize(
    ("written", "token"),
    [
        ("barrier=0x0", "nobarrier"),
        ("barrier=00", "nobarrier"),
        ("barrier=+0", "nobarrier"),
        ("barrier=2", "barrier"),
        ("auto_da_alloc=0X0", "noauto_da_alloc"),
        ("commit=0x1e", "commit=30"),
        ("commit=0", "commit=5"),
        ("commit=00", "commit=5"),
        ("resuid=010", "resuid=8"),
        ("init_itable=0x14", "init_itable=20"),
        ("delalloc=1", "delalloc=1"),
        ("usrjquota=010", "usrjquota=010"),
        ("commit=08", "commit=08"),
        ("shutdown=0x0", "shutdown=0x0"),
        ("commit=0x" + "f" * 5000, "commit=0x" + "f" * 5000),
    ],
)
def test_a_number_has_one_spelling(written: str, token: str) -> None:
    """The kernel reads decimal, octal and hexadecimal numbers, and prints decimal ones."""
    assert canonical(written) == token
