"""CMP001: the features are taken out of a real /boot, in a mount namespace of the test's own."""

from __future__ import annotations

from dataclasses import replace

from ext4audit.evidence import Known
from ext4audit.facts.host import BootLoader, Host, Loader
from support.remedies.case import RemedyCase


def by_old_grub(host: Host) -> Host:
    """Return the host with the GRUB of Debian 11."""
    loader = BootLoader(Loader.GRUB, "2.06-3~deb11u6")
    return replace(host, boot_loader=Known(loader, "grub-install --version"), container=None)


CASES = (
    RemedyCase(
        name="metadata_csum_seed on /boot",
        remedy="Take metadata_csum_seed out",
        mke2fs=("-O", "metadata_csum_seed"),
        at="/boot",
        alter=by_old_grub,
    ),
)
NOT_RUN = "Of the root and of a RAID only the advice is printed: it needs a rescue system."
