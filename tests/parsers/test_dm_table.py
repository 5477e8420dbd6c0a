from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.block import DmSegment
from ext4audit.parsers.dm_table import parse_dm_table


@pytest.mark.parametrize(
    ("name", "segments"),
    [
        ("linear", (DmSegment(0, 12541952, "linear", ("9:127", "3072")),)),
        (
            "two-bands",
            (
                DmSegment(0, 811008, "linear", ("9:127", "2048")),
                DmSegment(811008, 802816, "linear", ("9:126", "2048")),
            ),
        ),
        (
            "striped",
            (
                DmSegment(
                    0,
                    73728,
                    "striped",
                    ("3", "128", "8:9", "384", "8:8", "384", "8:7", "9789824"),
                ),
            ),
        ),
        (
            "crypt",
            (
                DmSegment(
                    0,
                    41910272,
                    "crypt",
                    (
                        "aes-xts-plain64",
                        ":64:logon:cryptsetup:0f1e2d3c-4b5a-4978-8796-a5b4c3d2e1f0-d0",
                        "0",
                        "8:3",
                        "32768",
                        "1",
                        "allow_discards",
                    ),
                ),
            ),
        ),
        (
            "cache",
            (
                DmSegment(
                    0,
                    2080768,
                    "cache",
                    tuple("252:3 252:2 252:4 128 2 metadata2 writethrough mq 0".split()),
                ),
            ),
        ),
    ],
)
def test_a_table(stored: Callable[[str], str], name: str, segments: tuple[DmSegment, ...]) -> None:
    """Each line is a segment with its target and the target's arguments."""
    assert parse_dm_table(stored(f"dmsetup/{name}.txt")) == segments


def test_a_target_may_have_no_argument() -> None:
    """The targets error and zero take none."""
    assert parse_dm_table("0 8 error \n") == (DmSegment(0, 8, "error", ()),)


@pytest.mark.parametrize(
    "text", ["", "\n", "0 8\n", "vg0-data: 0 8 linear 8:0 0\n", "x 8 linear 8:0 0\n"]
)
def test_another_text_is_refused(text: str) -> None:
    """A device without a live table, and the table of all devices, are not a device's table."""
    with pytest.raises(ValueError, match=r"live table|no line|not a decimal"):
        parse_dm_table(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_dm_table(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
