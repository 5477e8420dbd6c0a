"""PRF009: The journal is far smaller than usual, so metadata operations wait for it."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import (
    LEAST_BYTES,
    cite_journal,
    device_bytes,
    journal_of,
    size,
)


@rule(
    "PRF009",
    "journal-undersized",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/mke2fs.8.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://github.com/gardenlinux/gardenlinux/issues/1650",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether the journal of a filesystem of more than 20 GiB is smaller than an eighth of the
    journal that mke2fs creates for that size today: 128 MiB from 16 GiB on, 256 MiB from 32 GiB,
    512 MiB from 64 GiB, 1 GiB from 128 GiB (with blocks of 4 KiB).

    ## Why it matters

    resize2fs does not resize the journal: an image of a few hundred megabytes that was grown to
    hundreds of gigabytes keeps a journal of 8 or 16 MiB. When the journal is full, creating,
    renaming and deleting files stalls until the oldest transactions are written to their final
    locations. A large journal rarely stalls, and writes a block that changes often only once.

    ## Remedy

    Replace the journal on the unmounted filesystem: tune2fs removes the old one and creates a
    new one. The finding shows the size. For images, set the size with `mke2fs -J size=`.

    ## When to ignore

    Ignore it if few files are created and deleted, or if the journal was made small on purpose, as
    on small flash memory. External journals are not checked.
    """
    device = device_bytes(fs)
    if isinstance(device, Known) and device.value <= LEAST_BYTES:
        raise NotApplicable(f"its device has {size(device.value)} only")
    superblock = need(fs.superblock)
    if not superblock.has_journal:
        raise NotApplicable("it has no journal")
    if superblock.external_journal:
        raise NotApplicable("its journal is external")
    journal = need(journal_of(fs))
    if journal.filesystem_bytes <= LEAST_BYTES:
        raise NotApplicable(f"it has {size(journal.filesystem_bytes)} only")
    if not journal.undersized:
        yield from cite_journal(fs, journal)
        return
    if is_surely(fs.read_only):
        raise NotApplicable("it is read-only")
    yield Finding(
        message=f"The journal has {size(journal.present_bytes)}; mke2fs would create one of "
        f"{size(journal.usual_bytes)}. Creating and deleting many files stalls when it is full.",
        severity=Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=cite_journal(fs, journal),
        remedies=(
            remedies.features.enlarge_journal(fs, journal.present_bytes, journal.usual_bytes),
        ),
        summary="small journal: creating and deleting many files stalls on it",
    )
