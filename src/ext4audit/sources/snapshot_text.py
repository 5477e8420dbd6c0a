"""A snapshot as text: base64 between two marker lines, for channels that mangle bytes."""

from __future__ import annotations

import base64
import binascii
import re

from ext4audit.sources.snapshot_format import SnapshotError

BEGIN = "-----BEGIN EXT4AUDIT SNAPSHOT-----"
END = "-----END EXT4AUDIT SNAPSHOT-----"

_COLUMNS_BYTES = 57
"""Bytes a line: 76 columns (RFC 2045)."""
_BETWEEN = re.compile(re.escape(BEGIN.encode()) + rb"([A-Za-z0-9+/=\s]*)" + re.escape(END.encode()))


def wrap(content: bytes) -> str:
    """Return the snapshot as lines of ASCII."""
    starts = range(0, len(content), _COLUMNS_BYTES)
    lines = [base64.b64encode(content[at : at + _COLUMNS_BYTES]).decode() for at in starts]
    return "\n".join([BEGIN, *lines, END, ""])


def is_wrapped(text: bytes) -> bool:
    """Whether a snapshot begins somewhere in a text."""
    return BEGIN.encode() in text


def unwrap(text: bytes) -> bytes:
    """Return what stands between the markers; raises SnapshotError.

    A pty writes CR LF and may fold lines, a login shell talks before and after: white space
    inside and all that is outside is passed over.
    """
    if text.count(BEGIN.encode()) != 1:
        raise SnapshotError(f"{text.count(BEGIN.encode())} snapshots in one text")
    found = _BETWEEN.search(text)
    if found is None:
        raise SnapshotError("truncated, or mixed with other text, between its markers")
    try:
        return base64.b64decode(b"".join(found[1].split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SnapshotError(f"damaged base64: {error}") from None
