"""JSON with the original bytes of text that is not UTF-8."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.renderers.shared.json_text import base64_of, json_text, replaced, utf8_or_none


@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_ascii_and_has_the_original_bytes(indent: int | None) -> None:
    """A text that is not UTF-8 has its bytes beside it; any other text is left as it is."""
    text = json_text({"a": "\udcff", "b": "ä\U0001f600"}, indent=indent)
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text) == {"a": "\ufffd", "a_b64": "/w==", "b": "ä\U0001f600"}


@pytest.mark.parametrize(
    ("text", "expected"), [("/Übung", "/Übung"), ("", ""), ("a\udcff", None), ("\ud800", None)]
)
def test_text_that_is_not_utf8_is_recognized(text: str, expected: str | None) -> None:
    """The function returns a text that UTF-8 can encode, and None for other bytes."""
    assert utf8_or_none(text) == expected


def test_each_bad_byte_is_replaced() -> None:
    """Each byte that is not UTF-8 becomes one U+FFFD."""
    assert replaced("/mnt/\udcff\udcfeä") == "/mnt/\ufffd\ufffdä"


@given(st.binary())
def test_base64_gives_the_original_bytes(raw: bytes) -> None:
    """Bytes decoded with surrogateescape come back out of base64."""
    assert base64.b64decode(base64_of(raw.decode("utf-8", "surrogateescape"))) == raw


def test_a_surrogate_of_no_byte_does_not_end_the_output() -> None:
    """A lone surrogate that comes from no byte is encoded as three bytes."""
    assert base64.b64decode(base64_of("\ud800")) == b"\xed\xa0\x80"
