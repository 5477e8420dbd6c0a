"""Names that are not UTF-8 in machine formats: readable text, and the bytes beside it."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.renderers.escape import base64_of, replaced, utf8_or_none


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
