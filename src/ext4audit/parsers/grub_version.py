"""The version that GRUB's installer tells."""

from __future__ import annotations

import re

_VERSION = re.compile(r"\S+ \(GRUB\) ([0-9]\S*)")


def parse_grub_version(text: str) -> str:
    """Parse "grub-install (GRUB) 2.06-13+deb12u1"; ValueError for another text."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} names no version of GRUB")
    return match[1]
