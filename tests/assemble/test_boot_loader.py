from __future__ import annotations

import pytest

from evidence_host import HostEvidence, absent, debian_host, denied
from ext4audit.assemble.boot_loader import read_boot_loader
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Unknown, Why, need
from ext4audit.facts.boot import BootLoader, Loader
from ext4audit.sources.ask import RealPath, RunCommand

GRUB = "/boot/grub/grub.cfg"
GRUB2 = "/boot/grub2/grub.cfg"
ENTRIES = "/boot/loader/entries"


def host_with(*paths: str) -> HostEvidence:
    """Return a host with some files of boot loaders, and no other of them."""
    host = debian_host().tell(RealPath(GRUB), absent())
    for path in paths:
        host.tell(RealPath(path), path)
    return host.tell(RunCommand(("grub2-install", "--version")), "grub2-install (GRUB) 2.12\n")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((GRUB,), BootLoader(Loader.GRUB, "2.06-13+deb12u1")),
        ((GRUB2,), BootLoader(Loader.GRUB, "2.12")),
        # RHEL: GRUB reads the entries.
        ((GRUB2, ENTRIES), BootLoader(Loader.GRUB, "2.12")),
        ((ENTRIES,), BootLoader(Loader.SYSTEMD_BOOT)),
        (("/efi/EFI/systemd",), BootLoader(Loader.SYSTEMD_BOOT)),
        (("/boot/efi/EFI/systemd",), BootLoader(Loader.SYSTEMD_BOOT)),
        (("/boot/extlinux/extlinux.conf",), BootLoader(Loader.EXTLINUX)),
        ((), BootLoader(Loader.NONE_FOUND)),
    ],
)
def test_files_tell_the_boot_loader(paths: tuple[str, ...], expected: BootLoader) -> None:
    """What is in them is not read."""
    assert need(read_boot_loader(host_with(*paths).source())) == expected


def test_a_directory_for_root_only_is_still_there() -> None:
    """RHEL's /boot/grub2 is closed to others; that it exists says enough."""
    host = host_with("/boot/grub2").tell(RealPath(GRUB2), denied())
    assert need(read_boot_loader(host.source())).loader is Loader.GRUB


def test_grub_without_its_installer_has_no_version() -> None:
    """An EFI system of RHEL has not installed it."""
    host = host_with(GRUB).tell(RunCommand(("grub-install", "--version")), absent())
    assert need(read_boot_loader(host.source())) == BootLoader(Loader.GRUB, None)


@pytest.mark.parametrize("path", [GRUB, "/efi/EFI/systemd"])
def test_a_place_that_may_not_be_seen_is_a_hole(path: str) -> None:
    """To say that none was found would be a guess."""
    found = read_boot_loader(host_with().tell(RealPath(path), denied()).source())
    assert isinstance(found, Unknown)
    assert found.why is Why.DENIED


def test_a_container_has_no_boot_loader() -> None:
    """What lies in its /boot loads nothing."""
    host = debian_host().unmount(25).mount(25, "0:40", "/", "overlay", fstype="overlay")
    host.file("/run/systemd/container", "lxc\n")
    assert isinstance(assemble_host(host.source(), "2026-01-02T03:04:05Z").boot_loader, Unknown)
