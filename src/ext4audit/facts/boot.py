"""The boot loader that reads a filesystem before any kernel runs."""

from __future__ import annotations

from enum import Enum

from ext4audit.records import dataclass


class Loader(Enum):
    """What loads the kernel, as far as the files that it leaves in /boot tell."""

    GRUB = "GRUB"
    SYSTEMD_BOOT = "systemd-boot"
    EXTLINUX = "extlinux"
    NONE_FOUND = "none found"


@dataclass(frozen=True, slots=True)
class BootLoader:
    """A boot loader and its version: ("GRUB", "2.06-13+deb12u1").

    `version` is what the installed package or program says of itself, None where nothing says
    it. What was once written to the disk can be older: grub-install(8) writes it.
    """

    loader: Loader
    version: str | None = None
