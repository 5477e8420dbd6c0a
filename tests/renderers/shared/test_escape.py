from __future__ import annotations

import base64
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.renderers import base64_of, json_text, replaced, visible

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/data",
        "/mnt/with space",
        "/mnt/Übung/写真",
        r"mount -o remount -- $'/mnt/a\x1b\nb' \\",
        "$(reboot) `id` [/red] ::error -rf :smile:",
    ],
)
def test_printable_text_is_unchanged(text: str) -> None:
    """Printable text, including commands with backslashes, is returned unchanged."""
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\x0ab"),
        ("a\tb\r", r"a\x09b\x0d"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x00\x7f", r"\x00\x7f"),
        ("\x85\x9b", r"\u0085\u009b"),
        ("\udcff\udc80", r"\xff\x80"),
        ("\ud800", r"\ud800"),
        ("\u202egnp\u2066\u200e\u061c", r"\u202egnp\u2066\u200e\u061c"),
        ("a\u200bb\ufeff\xad", r"a\u200bb\ufeff\u00ad"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("a\xa0b\u3000", r"a\u00a0b\u3000"),
        ("\ue000\U000e0041", r"\ue000\U000e0041"),
        ("a\ufe0f\u3164\u115f", r"a\ufe0f\u3164\u115f"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    r"""Bytes become `\xHH`, code points `\uHHHH` or `\UHHHHHHHH`."""
    assert visible(text) == shown


def test_backslashes_are_doubled_in_escaped_text() -> None:
    r"""In a text with an escape, the literal characters `\n` are distinct from a newline."""
    assert visible("a\\x0a\nb") == r"a\\x0a\x0ab"


def test_ascii_only_escapes_non_ascii() -> None:
    """A character that the terminal cannot encode is shown as its code point."""
    assert visible("/Übung", ascii_only=True) == r"/\u00dcbung"


@given(ANY_TEXT)
def test_any_text_becomes_printable(text: str) -> None:
    """Any text becomes printable, and escaping it again changes nothing."""
    shown = visible(text)
    assert shown.isprintable()
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert visible(shown) == shown


@given(ANY_TEXT)
def test_any_text_becomes_ascii(text: str) -> None:
    """Any text becomes printable ASCII with `ascii_only`."""
    shown = visible(text, ascii_only=True)
    assert shown.isascii()
    assert shown.isprintable()


@pytest.mark.parametrize("indent", [None, 2])
def test_json_has_base64_of_invalid_utf8(indent: int | None) -> None:
    """A text that is not UTF-8 gets a base64 member; any other text is unchanged."""
    text = json_text({"a": "\udcff", "b": "ä\U0001f600"}, indent=indent)
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text) == {"a": "\ufffd", "a_b64": "/w==", "b": "ä\U0001f600"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("/Übung", None), ("", None), ("a\udcff", "Yf8="), ("\ud800", "7aCA")],
)
def test_invalid_utf8_is_recognized(text: str, expected: str | None) -> None:
    """Only a text that UTF-8 cannot encode gets a base64 member."""
    assert json.loads(json_text({"a": text})).get("a_b64") == expected


def test_each_invalid_byte_is_replaced() -> None:
    """Each byte that is not UTF-8 becomes one U+FFFD."""
    assert replaced("/mnt/\udcff\udcfeä") == "/mnt/\ufffd\ufffdä"


@given(st.binary())
def test_base64_gives_the_original_bytes(raw: bytes) -> None:
    """Bytes decoded with surrogateescape come back out of base64."""
    assert base64.b64decode(base64_of(raw.decode("utf-8", "surrogateescape"))) == raw


def test_lone_surrogate_is_encoded() -> None:
    """A lone surrogate that comes from no byte is encoded as three bytes."""
    assert base64.b64decode(base64_of("\ud800")) == b"\xed\xa0\x80"
