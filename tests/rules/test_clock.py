"""Times in evidence, as words and as seconds."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.rules._clock import seconds_since_1970, utc

MOST = 4102444800 * 4


@given(st.integers(0, MOST))
def test_a_time_is_spelled_as_the_calendar_has_it(seconds: int) -> None:
    """The words are those of the standard library, and read back as the same second."""
    expected = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert utc(seconds) == expected
    assert seconds_since_1970(expected) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02", "2026-01-02T03:04:05+01:00"])
def test_what_is_no_time_in_utc_is_none(text: str) -> None:
    """A time in another zone is not taken for one in UTC."""
    assert seconds_since_1970(text) is None


def test_fractions_of_a_second_are_dropped() -> None:
    """RFC 3339 allows them."""
    assert seconds_since_1970("1970-01-02T00:00:00.5Z") == 86400
