"""Numbers in texts of a host: malformed ones are rejected without an exception."""

from __future__ import annotations

import pytest

from ext4audit.facts import whole_number
from ext4audit.facts.features_and_bugs import grub_version
from ext4audit.facts.options import Handling, handling_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str((1 << 64) - 1), (1 << 64) - 1),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1_0", None),
        ("\u0663", None),
        ("\u00b2", None),
        ("9" * 5000, None),
    ],
)
def test_a_number_has_few_digits_of_ascii(text: str, number: int | None) -> None:
    """Python's int() accepts digits of thirty scripts, and raises for 5,000 digits."""
    assert whole_number(text) == number


def test_a_grub_of_thousands_of_digits_has_no_version() -> None:
    """The text may come from any snapshot."""
    assert grub_version("2." + "9" * 5000) == (2, 999999999)


@pytest.mark.parametrize("number", ["9" * 5000, "0" + "7" * 5000, "0x" + "f" * 5000])
def test_an_option_of_thousands_of_digits_is_refused(number: str) -> None:
    """Its value is larger than any that the kernel accepts."""
    assert handling_of(f"commit={number}", (6, 1, 0)).handling is Handling.REFUSED
