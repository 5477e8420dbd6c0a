"""Host names and texts: bytes outside, str with surrogateescape inside.

Always UTF-8, whatever the locale: os.fsencode under LC_ALL=en_US.ISO-8859-1 turns the name that
was decoded from mountinfo into other bytes, and the file is then "not found".
"""

from __future__ import annotations

import errno


def decode(raw: bytes) -> str:
    """Decode what a host said; a byte that is not UTF-8 becomes a lone surrogate."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that `decode` made `text` of, to hand them to the kernel.

    Raises OSError(EINVAL) for what no name can hold: NUL, and a surrogate that no byte decodes
    to. Python raises ValueError there, which a source could not tell from a mistake of its own.
    """
    if "\0" in text:
        raise OSError(errno.EINVAL, "a name cannot hold NUL")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise OSError(errno.EINVAL, f"not a name: {error.reason}") from error
