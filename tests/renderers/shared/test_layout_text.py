"""Text bars."""

from __future__ import annotations

import pytest

from ext4audit.renderers.shared.layout_text import bar


@pytest.mark.parametrize(
    ("value", "largest", "columns", "drawn"),
    [
        (8, 8, 4, "████"),
        (4, 8, 4, "██"),
        (5, 8, 4, "██▌"),
        (1, 64, 8, "▏"),
        (1, 100_000, 8, "▏"),
        (0, 8, 4, ""),
        (9, 8, 4, "████"),
        (0, 0, 4, ""),
    ],
)
def test_bar_in_eighths(value: int, largest: int, columns: int, drawn: str) -> None:
    """A bar fills its columns in eighths; any value above zero is visible, and none overflows."""
    assert bar(value, largest, columns, ascii_only=False) == drawn


@pytest.mark.parametrize(
    ("value", "drawn"), [(8, "####"), (4, "##"), (1, "#"), (0.01, "#"), (0, "")]
)
def test_bar_without_unicode_is_ascii(value: float, drawn: str) -> None:
    """Without Unicode a bar consists of whole columns of #."""
    assert bar(value, 8, 4, ascii_only=True) == drawn
