from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.renderers.shared.escape import visible

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
def test_printable_text_is_shown_as_it_is(text: str) -> None:
    """Printable text, commands with their backslashes included, is returned unchanged."""
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
def test_what_a_terminal_interprets_or_hides_is_escaped(text: str, shown: str) -> None:
    r"""Bytes become `\xHH`, code points `\uHHHH` or `\UHHHHHHHH`."""
    assert visible(text) == shown


def test_backslashes_are_doubled_beside_an_escape() -> None:
    r"""In a text where something is escaped, the characters `\n` differ from a newline."""
    assert visible("a\\x0a\nb") == r"a\\x0a\x0ab"


def test_ascii_only_spells_out_all_that_is_not_ascii() -> None:
    """A terminal that cannot encode a letter is given its code point."""
    assert visible("/Übung", ascii_only=True) == r"/\u00dcbung"


@given(ANY_TEXT)
def test_nothing_unsafe_is_ever_shown(text: str) -> None:
    """Whatever the text, what is shown is printable, and showing it again changes nothing."""
    shown = visible(text)
    assert shown.isprintable()
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert visible(shown) == shown


@given(ANY_TEXT)
def test_ascii_only_shows_ascii_only(text: str) -> None:
    """Whatever the text, `ascii_only` yields printable ASCII."""
    shown = visible(text, ascii_only=True)
    assert shown.isascii()
    assert shown.isprintable()
