"""JSON in ASCII: text that is not UTF-8 is replaced, and its original bytes stand beside it."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Iterator

from ext4audit.renderers.shared.escape import is_byte

_REPLACEMENT = "\ufffd"
_SURROGATE_ESCAPE = "\\ud"
"""How the JSON escape of every surrogate begins; also that of characters beyond the BMP."""


def json_text(document: object, *, indent: int | None = 2) -> str:
    """Return a document as JSON in ASCII with a newline at the end, and with original bytes."""
    text = json.dumps(document, ensure_ascii=True, indent=indent)
    if _SURROGATE_ESCAPE in text:
        # Surrogates are rare, and the walk over the document costs as much as writing it.
        text = json.dumps(with_original_bytes(document), ensure_ascii=True, indent=indent)
    return f"{text}\n"


def with_original_bytes(value: object) -> object:
    """Return JSON values in which every text is UTF-8, with the original bytes beside it.

    `"<key>"` has U+FFFD for each bad byte, and `"<key>_b64"` has the bytes. For a list of texts
    that is a list of the same length, with null where the text is UTF-8. The function visits the
    whole document, so no key can be forgotten: one lone surrogate makes strict readers refuse
    the document.
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


def utf8_or_none(text: str) -> str | None:
    """Return the text if it can be written as UTF-8, None if it holds bytes that cannot."""
    return None if any("\ud800" <= char <= "\udfff" for char in text) else text


def replaced(text: str) -> str:
    """Return the text with U+FFFD in place of each byte that is not UTF-8."""
    return "".join(_REPLACEMENT if "\ud800" <= char <= "\udfff" else char for char in text)


def base64_of(text: str) -> str:
    r"""Return base64 of the bytes that the text was decoded from with surrogateescape.

    A surrogate that comes from no byte (`"\ud800"` in the JSON of a tool) is encoded as three
    bytes (surrogatepass), because an exception would end the output.
    """
    raw = b"".join(
        bytes((ord(char) - 0xDC00,)) if is_byte(char) else char.encode("utf-8", "surrogatepass")
        for char in text
    )
    return b2a_base64(raw, newline=False).decode("ascii")
