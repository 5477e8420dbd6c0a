"""DRF004: an entry for / of which the device is mounted elsewhere; nothing here boots."""

from __future__ import annotations

from dataclasses import replace

from ext4audit.evidence import Known
from ext4audit.facts.host import Host
from ext4audit.report import Outcome
from support.remedies.case import RemedyCase, Stage


def entry_of_the_root(words: str, stage: Stage) -> None:
    """Write an entry that means the device to be the root."""
    stage.fstab.write_text(f"# test\n{stage.device} / ext4 {words} 0 1\n")


def as_root(host: Host) -> Host:
    """Return the host as if the filesystem were its root."""
    (fs, *_) = host.filesystems
    mounts = tuple(replace(mount, mount_point="/") for mount in fs.mounts)
    entries = host.fstab.value if isinstance(host.fstab, Known) else ()
    own = tuple(e for e in entries if e.line.mount_point == "/")
    entries = tuple(replace(e, device_number=Known(fs.device_number, "test")) for e in own)
    return replace(
        host,
        filesystems=(replace(fs, mounts=mounts, fstab=Known(entries, "/etc/fstab")),),
        kernel_arguments=Known(("ro",), "/proc/cmdline"),
        container=None,
    )


CASES = (
    RemedyCase(
        name="taken out of fstab",
        remedy="out of fstab",
        prepare=lambda stage: entry_of_the_root("errors=remount-ro,data=writeback", stage),
        alter=as_root,
        # Without the word there is nothing to judge.
        cured=(Outcome.NOT_APPLICABLE,),
    ),
    RemedyCase(
        name="stored in the place of another mode",
        remedy="Store data=ordered",
        tune=("-o", "journal_data_writeback"),
        prepare=lambda stage: entry_of_the_root("data=ordered", stage),
        alter=as_root,
    ),
)
NOT_RUN = "The boot that the mode spoils, and the one that it does not, cannot be run here."
