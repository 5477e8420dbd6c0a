from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers import parse_ctime


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Thu Jan  1 00:00:00 1970", 0),
        ("Thu Jan  2 03:04:05 2020", 1577934245),
        ("Sat Feb 29 12:00:00 2020", 1582977600),
        ("Sun Mar  1 00:00:00 2020", 1583020800),
        ("Mon Mar  1 00:00:00 2100", 4107542400),
        ("Sun Feb  7 06:28:15 2106", 4294967295),
        ("n/a", None),
        ("", None),
        ("Thu Jan  1 00:00:00 1969", None),
        ("Do  Jan  1 00:00:00 1970", None),
        ("Thu Jän  1 00:00:00 1970", None),
        ("Thu Jan  2 03:04:05 CET 2020", None),
    ],
)
def test_a_time_is_seconds_since_1970(text: str, seconds: int | None) -> None:
    """The text has no time zone and is read as UTC. Other texts are not times."""
    assert parse_ctime(text) == seconds


@given(st.integers(0, 1 << 37))
def test_every_printed_time_is_parsed_to_the_same_time(seconds: int) -> None:
    """The output of ctime for a time in UTC is parsed to that time, leap years included."""
    assert parse_ctime(time.asctime(time.gmtime(seconds))) == seconds
