"""The words of mount(8) that are no options of ext4: flags of a mount and of its superblock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

SUPERBLOCK_FLAGS = frozenset({"sync", "dirsync", "lazytime", "mand"})
"""Flags that mountinfo lists beside ext4's options; a remount clears those that it omits."""

MOUNT_FLAGS = SUPERBLOCK_FLAGS | {"ro", "nosuid", "nodev", "noexec", "nodiratime", "nosymfollow"}

ATIME_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "noatime": "noatime",
        "relatime": "relatime",
        "atime": "relatime",
        "strictatime": "strictatime",
        "norelatime": "strictatime",
    }
)
"""What each word for access times asks for; relatime without any (Linux 2.6.30)."""

IMPLIED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "user": ("nosuid", "nodev", "noexec"),
        "users": ("nosuid", "nodev", "noexec"),
        "owner": ("nosuid", "nodev"),
        "group": ("nosuid", "nodev"),
    }
)
"""What words of fstab imply unless a later word says otherwise (mount(8))."""

CLEARED: Mapping[str, str] = MappingProxyType(
    {
        "rw": "ro",
        "suid": "nosuid",
        "dev": "nodev",
        "exec": "noexec",
        "diratime": "nodiratime",
        "symfollow": "nosymfollow",
        "async": "sync",
        "nolazytime": "lazytime",
        "nomand": "mand",
    }
)
"""The flag that each word takes back."""


def flags_of(words: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that words of fstab ask for, the one for access times last.

    The last word wins (mount(8)).
    """
    flags: dict[str, None] = {}
    atime = "relatime"
    for word in words:
        flags |= dict.fromkeys(
            flag for flag in (*IMPLIED.get(word, ()), word) if flag in MOUNT_FLAGS
        )
        flags.pop(CLEARED.get(word, ""), None)
        atime = ATIME_WORDS.get(word, atime)
    return (*flags, atime)
