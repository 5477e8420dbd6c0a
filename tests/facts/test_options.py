"""The table of options, where a boot of the kernel has corrected it."""

from __future__ import annotations

import pytest

from ext4audit.facts.options import recognize, spec_named


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
    """5.10 refuses `no_prefetch_block_bitmaps` and lists neither token: there is no opposite."""
    assert spec_named(name).default(upstream) == token


def test_nothing_is_no_option() -> None:
    """Two commas of fstab have an empty option between them."""
    assert recognize("") is None
