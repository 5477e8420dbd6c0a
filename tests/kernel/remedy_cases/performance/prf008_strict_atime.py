"""Access times become gentle by remount, whatever fstab says."""

from __future__ import annotations

from support.remedies.case import RemedyCase

BY_DEFAULT, NEVER = "Remount with relatime", "Remount with noatime"
CASES = (
    RemedyCase("relatime, set by fstab", BY_DEFAULT, mount="strictatime", fstab="strictatime"),
    RemedyCase("relatime, set by hand", BY_DEFAULT, mount="strictatime,nosuid"),
    RemedyCase(
        "noatime, fstab asks for it already",
        NEVER,
        mount="strictatime,noexec",
        fstab="noatime,nodev",
    ),
    RemedyCase(
        "noatime, set by fstab", NEVER, mount="strictatime", fstab="norelatime,errors=continue"
    ),
    RemedyCase("noatime, set by hand", NEVER, mount="strictatime", fstab="defaults"),
)
