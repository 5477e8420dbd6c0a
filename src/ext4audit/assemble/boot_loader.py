"""Find what loads the kernel, by the files that each boot loader leaves in its place."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.assemble.reading import ask
from ext4audit.evidence import Evidence, Known, Unknown, Why, value_or
from ext4audit.facts.boot import BootLoader, Loader
from ext4audit.parsers.grub_version import parse_grub_version
from ext4audit.sources.ask import RealPath, RunCommand, Source

# RHEL keeps its entries in /boot/loader, too, and has GRUB read them: GRUB is looked for first.
# Its /boot/grub2 is for root only; that the directory is there can be seen by anybody.
GRUB_PLACES = (
    (("/boot/grub/grub.cfg",), "grub-install"),
    (("/boot/grub2/grub.cfg", "/boot/grub2"), "grub2-install"),
)
OTHER_PLACES = (
    (Loader.EXTLINUX, ("/boot/extlinux/extlinux.conf",)),
    (
        Loader.SYSTEMD_BOOT,
        ("/boot/loader/entries", "/boot/efi/EFI/systemd", "/efi/EFI/systemd"),
    ),
)


def read_boot_loader(source: Source) -> Evidence[BootLoader]:
    """Return the boot loader whose files are there; a place that may not be seen is a hole."""
    for places, program in GRUB_PLACES:
        seen = _first_there(source, places)
        if isinstance(seen, Known):
            return Known(BootLoader(Loader.GRUB, _version(source, program)), seen.origin)
        if seen is not None:
            return seen
    return _other(source)


def _other(source: Source) -> Evidence[BootLoader]:
    hole: Unknown | None = None
    for loader, places in OTHER_PLACES:
        seen = _first_there(source, places)
        if isinstance(seen, Known):
            return Known(BootLoader(loader), seen.origin)
        hole = hole or seen
    return hole or Known(BootLoader(Loader.NONE_FOUND), "/boot")


def _first_there(source: Source, places: Sequence[str]) -> Evidence[str] | None:
    """Return the first path that is there, None where all are certainly absent."""
    hole: Unknown | None = None
    for place in places:
        seen = source.fetch(RealPath(place))
        if isinstance(seen, Known):
            return Known(seen.value, place)
        if seen.why is not Why.ABSENT:
            hole = hole or Unknown("boot loader", seen.why, seen.detail, seen.hint)
    return hole


def _version(source: Source, program: str) -> str | None:
    command = RunCommand((program, "--version"))
    return value_or(ask(source, command, parse_grub_version, "version of GRUB"), None)
