"""From an error of the operating system to a reason, and to how the answer can be had."""

from __future__ import annotations

import errno
import os

from ext4audit.evidence import Why

_WHY = {
    errno.ENOENT: Why.ABSENT,
    errno.ENOTDIR: Why.ABSENT,
    errno.ENODEV: Why.ABSENT,
    errno.ENXIO: Why.ABSENT,
    errno.EACCES: Why.DENIED,
    errno.EPERM: Why.DENIED,
}


class Unanswered(Exception):  # noqa: N818 - an answer of a kind, not a failure
    """An ask that the host cannot answer: why, in the host's words, and how to make it known."""

    def __init__(self, why: Why, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail
        self.hint = hint


def denied_hint(*, is_root: bool | None = None) -> str:
    """Say what to do about a refusal; "run as root" is no help to root.

    `is_root` is whether root was refused; without it, whether this process is root.
    """
    if os.geteuid() == 0 if is_root is None else is_root:
        return "even root is refused here: run on the host itself, outside containers"
    return "run as root"


def from_os_error(error: OSError) -> Unanswered:
    """Give the reason that an errno stands for; what is in no table is FAILED."""
    if isinstance(error, TimeoutError):
        detail = error.strerror or str(error)
        return Unanswered(Why.TIMED_OUT, detail, "allow more time with --timeout")
    why = _WHY.get(error.errno or 0, Why.FAILED)
    hint = denied_hint() if why is Why.DENIED else ""
    return Unanswered(why, error.strerror or str(error), hint)
