"""HLT007: The superblock on the device is destroyed, and the next mount will fail."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, Undetermined, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import block_bytes, is_image, origin_of


@rule(
    "HLT007",
    "superblock-destroyed",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://www.kernel.org/doc/html/latest/filesystems/ext4/super.html",
        "https://man7.org/linux/man-pages/man8/e2fsck.8.html",
        "fs/ext4/super.c: ext4_load_super()",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    The primary superblock as it is on the device: its magic number, its checksum, and whether its
    sizes agree. dumpe2fs verifies them, and the bytes are read where it fails. A checksum that is
    wrong in three readings is no write in progress. Where dumpe2fs fails, hangs or prints
    something else on a superblock that is whole, the rule is undetermined.

    ## Why it matters

    A mounted filesystem goes on without it: the kernel works with a copy in memory, and nothing
    is logged. The next mount, and so the next boot, is refused. Something has written to the
    device from outside: a wrong `dd`, `wipefs` or `pvcreate`, an installer, another host. What
    else it has overwritten is not known.

    ## Remedy

    Copy the data away while it is mounted, and do not unmount it or restart before. Then repair
    it from a backup superblock with `e2fsck -b`.

    ## When to ignore

    Never.
    """
    if is_image(fs):
        raise NotApplicable("an image with a destroyed superblock is refused, and not audited")
    primary = need(fs.primary)
    if primary.damage:
        yield _finding(fs, primary)
    elif primary.failed is not None:
        raise Undetermined((primary.failed,))
    else:
        yield Citation("superblock on the device", "whole", origin_of(fs.primary))


def _finding(fs: Filesystem, primary: PrimarySuperblock) -> Finding:
    below = " below the mounted filesystem" if fs.alive else ""
    then = "it will not mount again" if fs.alive else "it cannot be mounted"
    return Finding(
        message=f"The superblock on {fs.device} is destroyed{below} ({primary.damage}): {then}.",
        severity=Severity.CRITICAL,
        confidence=Confidence.CONFIRMED,
        citations=tuple(_cite(fs, primary)),
        remedies=(remedies.offline.repair_from_backup(fs, block_bytes(fs)),),
    )


def _cite(fs: Filesystem, primary: PrimarySuperblock) -> Iterator[Citation]:
    """Cite what is on the device beside what the kernel still answers."""
    yield Citation("superblock on the device", primary.damage, origin_of(fs.primary))
    if primary.failed is not None:
        yield Citation("dumpe2fs", primary.failed.detail, primary.failed.what)
    if isinstance(primary.kernel, Known):
        blocks, origin = primary.kernel.value.size_blocks, primary.kernel.origin
        yield Citation("the kernel's copy", f"a filesystem of {blocks} blocks", origin)
    if fs.mount_points:
        yield Citation("mounted on", ", ".join(fs.mount_points), "/proc/self/mountinfo")
