"""Make text from a host safe to show, and keep its original bytes for machine formats.

Mount points, labels and device names may hold any byte but NUL and "/": ESC passes through
rich and print(), byte 0xFF (a lone surrogate after surrogateescape) crashes print(), and a
right-to-left override shows another name than the one a command would act on.
"""

from __future__ import annotations

from collections.abc import Iterator

_REPLACEMENT = "\ufffd"

_BLANK_LETTERS = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    )
)
"""Letters, marks and symbols that Unicode calls printable and that draw nothing:
Default_Ignorable_Code_Point without category Cf (DerivedCoreProperties.txt 16.0), and the
blank Braille pattern."""


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return `text` with everything that a terminal would obey or hide spelled as an escape.

    `\xHH` is a byte: an ASCII control, or one that is not UTF-8. `\uHHHH` and `\UHHHHHHHH` are
    code points: C1 controls, bidirectional and zero-width characters, separators, blanks other
    than the space, unassigned ones; with `ascii_only` all that are not ASCII.

    Printable text is returned unchanged, backslashes included, because commands must stay
    byte-identical: a name that spells out `\x1b` is therefore shown like ESC, and only JSON
    tells them apart. Where something is escaped, each backslash of the text is doubled.
    """
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
    if _is_byte(char):
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the BMP


def _is_byte(char: str) -> bool:
    """Whether surrogateescape made this of a byte that is not UTF-8 (PEP 383)."""
    return "\udc80" <= char <= "\udcff"


def utf8_or_none(text: str) -> str | None:
    """Return the text if it can be written as UTF-8, None if it holds bytes that cannot."""
    return None if any("\ud800" <= char <= "\udfff" for char in text) else text


def replaced(text: str) -> str:
    """Return the text with U+FFFD in place of each byte that is not UTF-8."""
    return "".join(_REPLACEMENT if "\ud800" <= char <= "\udfff" else char for char in text)


def base64_of(text: str) -> str:
    r"""Return base64 of the bytes that the text was decoded from with surrogateescape.

    A surrogate that no byte made (`"\ud800"` in the JSON of a tool) has no such byte; it is
    written as its three bytes would be, rather than ending the output.
    """
    raw = b"".join(
        bytes((ord(char) - 0xDC00,)) if _is_byte(char) else char.encode("utf-8", "surrogatepass")
        for char in text
    )
    from binascii import b2a_base64  # noqa: PLC0415 - few hosts have such a name

    return b2a_base64(raw, newline=False).decode("ascii")


def with_original_bytes(value: object) -> object:
    """Return JSON values in which every text is UTF-8, the original bytes beside it.

    `"<key>"` gets U+FFFD for each bad byte, and `"<key>_b64"` the bytes; for a list of texts
    that is a list as long, null where the text is UTF-8. This passes over the whole document,
    so that no key can be forgotten: a lone surrogate makes strict readers refuse all of it.
    """
    if isinstance(value, dict):
        return dict(_members_with_bytes(value))
    if isinstance(value, list):
        return [with_original_bytes(each) for each in value]
    return replaced(value) if isinstance(value, str) else value


def _members_with_bytes(members: dict[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in members.items():
        yield key, with_original_bytes(value)
        original = _original_bytes(value)
        if original is not None:
            yield f"{key}_b64", original


def _original_bytes(value: object) -> str | list[str | None] | None:
    if isinstance(value, list):
        texts = [_original_text_bytes(each) for each in value]
        return texts if any(texts) else None
    return _original_text_bytes(value)


def _original_text_bytes(value: object) -> str | None:
    if isinstance(value, str) and utf8_or_none(value) is None:
        return base64_of(value)
    return None
