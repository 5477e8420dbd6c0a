"""Decoding of the host's text, and the error for an ask that the host cannot answer.

Always UTF-8, whatever the locale: os.fsencode under LC_ALL=en_US.ISO-8859-1 turns the name that
was decoded from mountinfo into other bytes, and the file is then "not found".
"""

from __future__ import annotations

import errno
import os
import re
from datetime import datetime, timezone

from ext4audit.evidence import Unknown, Why


def decode(raw: bytes) -> str:
    """Decode bytes from a host; a byte that is not UTF-8 becomes a lone surrogate."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that `decode` made `text` of, to hand them to the kernel.

    Raises OSError(EINVAL) for what no name can hold: NUL, and a surrogate that no byte decodes
    to. Python raises ValueError there, which looks the same as a programming error.
    """
    if "\0" in text:
        raise OSError(errno.EINVAL, "a name cannot hold NUL")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise OSError(errno.EINVAL, f"not a name: {error.reason}") from error


VERSION_BANNER = re.compile(r"\S+ [0-9.]+\S* \([0-9]{1,2}-\w{3}-[0-9]{4}\)")
"""The first line on stderr of e2fsprogs: "dumpe2fs 1.47.0 (5-Feb-2023)"."""

_WHY = {
    errno.ENOENT: Why.ABSENT,
    errno.ENOTDIR: Why.ABSENT,
    errno.ENODEV: Why.ABSENT,
    errno.ENXIO: Why.ABSENT,
    errno.EACCES: Why.DENIED,
    errno.EPERM: Why.DENIED,
}


class Unanswered(Exception):  # noqa: N818 - an answer of a kind, not a failure
    """An ask that the host cannot answer: why, the host's message, and how to make it known."""

    def __init__(self, why: Why, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail
        self.hint = hint

    def unknown(self, what: str) -> Unknown:
        """Return the answer to the ask."""
        return Unknown(what, self.why, self.detail, self.hint)


def denied_hint(*, is_root: bool | None = None) -> str:
    """Return what to do about a refusal; "run as root" is no help to root.

    `is_root` is whether root was refused; without it, whether this process is root.
    """
    if os.geteuid() == 0 if is_root is None else is_root:
        return "even root is refused here: run on the host itself, outside containers"
    return "run as root"


def from_os_error(error: OSError) -> Unanswered:
    """Return the reason that an errno stands for; FAILED for all others."""
    if isinstance(error, TimeoutError):
        detail = error.strerror or str(error)
        return Unanswered(Why.TIMED_OUT, detail, "allow more time with --timeout")
    why = _WHY.get(error.errno or 0, Why.FAILED)
    hint = denied_hint() if why is Why.DENIED else ""
    return Unanswered(why, error.strerror or str(error), hint)


def utc_now() -> str:
    """Return the time in RFC 3339, UTC, to the second."""
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
