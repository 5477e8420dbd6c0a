"""Bytes outside, text inside."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.sources.text import decode, encode


@given(st.binary().filter(lambda raw: b"\0" not in raw))
def test_every_name_survives_decoding(raw: bytes) -> None:
    """A name of any bytes comes back as the same bytes."""
    assert encode(decode(raw)) == raw


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_name_can_hold_is_an_error_of_the_host(text: str) -> None:
    """NUL and surrogates that no byte decodes to are EINVAL, not a mistake of the program."""
    with pytest.raises(OSError, match="name") as caught:
        encode(text)
    assert caught.value.errno == errno.EINVAL
