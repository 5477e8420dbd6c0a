"""Escaping of text from a host, so that it is safe to show.

Mount points, labels and device names may hold any byte but NUL and "/". ESC passes through
rich and print(). Byte 0xFF, a lone surrogate after surrogateescape, crashes print(). A
right-to-left override shows another name than the one that a command acts on.
"""

from __future__ import annotations

_BLANK_LETTERS = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    )
)
"""Letters, marks and symbols that are printable in Unicode and have no visible glyph:
Default_Ignorable_Code_Point without category Cf (DerivedCoreProperties.txt 16.0), and the
blank Braille pattern."""


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return `text` with an escape for everything that a terminal interprets or hides.

    `\xHH` is a byte: an ASCII control, or one that is not UTF-8. `\uHHHH` and `\UHHHHHHHH` are
    code points: C1 controls, bidirectional and zero-width characters, separators, blanks other
    than the space, and unassigned ones. With `ascii_only` they include all that are not ASCII.

    Printable text is returned unchanged, backslashes included, because commands must stay
    byte-identical. A name that consists of the characters `\x1b` is therefore shown like ESC;
    only JSON distinguishes them. Where something is escaped, each backslash is doubled.
    """
    if text.isascii() and text.isprintable():
        return text
    if all(_is_shown(char, ascii_only=ascii_only) for char in text):
        return text
    return "".join(_escaped(char, ascii_only=ascii_only) for char in text)


def _is_shown(char: str, *, ascii_only: bool) -> bool:
    if ascii_only and not char.isascii():
        return False
    # isprintable() is false for the categories C* and Z*, the space excepted.
    return char.isprintable() and ord(char) not in _BLANK_LETTERS


def _escaped(char: str, *, ascii_only: bool) -> str:
    code = ord(char)
    if char == "\\":
        return "\\\\"
    if _is_shown(char, ascii_only=ascii_only):
        return char
    if code < 0x80:  # noqa: PLR2004 - the end of ASCII
        return f"\\x{code:02x}"
    if is_byte(char):
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the BMP


def is_byte(char: str) -> bool:
    """Whether surrogateescape decoded a byte that is not UTF-8 to this (PEP 383)."""
    return "\udc80" <= char <= "\udcff"
