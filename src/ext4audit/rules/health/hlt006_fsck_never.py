"""HLT006: The filesystem is never checked, neither at boot nor after a number of mounts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Evidence, Known, need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import BINDS, FstabEntry
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import (
    FSTAB_OF_CONTAINER,
    cite_fstab,
    refuse_container,
    series,
    superblock_field,
)

NOT_AT_BOOT = BINDS | {"noauto"}


@rule(
    "HLT006",
    "fsck-never",
    severity=Severity.INFO,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/fstab.5.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://man7.org/linux/man-pages/man8/e2scrub.8.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the sixth field of the fstab entry is 0 for a filesystem other than the root, and the
    superblock schedules no check, neither after a number of mounts nor after a time.

    ## Why it matters

    With 0, the boot does not run e2fsck at all: a filesystem that the kernel has marked with
    errors is mounted again without a check. With 2, a clean filesystem costs no time, because
    e2fsck only reads its superblock.

    ## Remedy

    Set the sixth field to 2. On LVM, e2scrub checks a snapshot while the filesystem is in use.

    ## When to ignore

    Ignore it if checks are started by other means, and on volumes that several machines can mount.
    """
    refuse_container(host, FSTAB_OF_CONTAINER)
    refuse_unmounted(fs)
    periodic = _periodic_check(fs)
    if isinstance(periodic, Known) and periodic.value:
        yield Citation("checks", "scheduled by the superblock", periodic.origin)
        return
    entries = [e for e in need(fs.fstab) if NOT_AT_BOOT.isdisjoint(e.line.options)]
    if not entries or any(entry.line.mount_point == "/" for entry in entries):
        raise NotApplicable(
            "it is the root filesystem" if entries else "fstab does not mount it at boot"
        )
    if any(entry.line.fsck_pass for entry in entries):
        yield from _cited(entries)
        return
    need(periodic)
    yield _finding(fs, entries)


def _periodic_check(fs: Filesystem) -> Evidence[bool]:
    """Return whether the superblock schedules checks, by number of mounts or by time."""

    def read(superblock: Superblock) -> bool | None:
        mounts, seconds = superblock.max_mount_count, superblock.check_interval_seconds
        return None if mounts is None or seconds is None else mounts > 0 or seconds > 0

    return superblock_field(fs, "when to check", read)


def _cited(entries: Sequence[FstabEntry]) -> Iterator[Citation]:
    for entry in entries:
        line = entry.line
        value = f"{line.spec} {line.mount_point}: {line.fsck_pass}"
        yield cite_fstab(line, value, "sixth field of fstab {}")


def _finding(fs: Filesystem, entries: Sequence[FstabEntry]) -> Finding:
    origin = origin_of(fs.superblock)
    lines = series([entry.line.where for entry in entries])
    return Finding(
        message="The filesystem is never checked: fstab excludes it from checks at boot, and the "
        "superblock schedules none.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(*_cited(entries), Citation("scheduled checks", "none", origin)),
        remedies=(
            Remedy(
                f"Set the sixth field of {lines} of /etc/fstab to 2.",
                Disruption.ONLINE,
                trade_off="If the filesystem is damaged, the boot waits for e2fsck, which can take "
                "hours on a large one.",
            ),
        ),
        summary="never checked: neither at boot nor on a schedule",
    )
