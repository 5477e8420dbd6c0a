from __future__ import annotations

import pytest

from ext4audit.parsers.grub_version import parse_grub_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("grub-install (GRUB) 2.06-13+deb12u1\n", "2.06-13+deb12u1"),
        ("grub-install (GRUB) 2.12-1ubuntu7.3\n", "2.12-1ubuntu7.3"),
        ("grub2-install (GRUB) 2.06\n", "2.06"),
        ("/usr/sbin/grub-install (GNU GRUB) 0.97\n", None),
        ("", None),
    ],
)
def test_the_version_follows_the_name(text: str, version: str | None) -> None:
    """The distribution's revision belongs to it; GRUB Legacy is another program."""
    if version is None:
        with pytest.raises(ValueError, match="names no version"):
            parse_grub_version(text)
    else:
        assert parse_grub_version(text) == version
