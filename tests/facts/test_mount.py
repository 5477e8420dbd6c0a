"""What the options of a line of fstab set."""

from __future__ import annotations

import pytest

from ext4audit.facts.mount import intended_flags


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("defaults", "relatime"),
        ("relatime", "relatime"),
        ("norelatime", "relatime"),
        ("atime", "relatime"),
        ("noatime", "noatime"),
        ("noatime,relatime", "noatime"),
        ("noatime,norelatime", "noatime"),
        ("noatime,nostrictatime", "noatime"),
        ("noatime,atime", "relatime"),
        ("atime,noatime", "noatime"),
        ("strictatime", "strictatime"),
        ("strictatime,noatime", "strictatime"),
        ("noatime,strictatime", "strictatime"),
        ("strictatime,relatime", "strictatime"),
        ("strictatime,atime", "strictatime"),
        ("strictatime,nostrictatime", "relatime"),
        ("noatime,strictatime,nostrictatime", "noatime"),
    ],
)
def test_options_for_access_times_are_bits(options: str, flag: str) -> None:
    """tests/kernel/options/test_access_times.py mounts them in every order."""
    assert intended_flags(options.split(",")) == {flag}
