"""HLT007: The superblock on the device is destroyed, and the next mount will fail."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, Known, Undetermined, derive, need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
    few,
)
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field
from ext4audit.rules.shared.quantities import block_bytes, device_bytes, is_image, size


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

    The primary superblock on the device: its magic number, its checksum, and whether its sizes
    are consistent. dumpe2fs verifies them; if it fails, the bytes are read directly. A checksum
    must be wrong in three reads, so that a write in progress is not reported. If dumpe2fs fails
    although the superblock is valid, the rule is undetermined. The rule also checks whether the
    device is at least as large as the filesystem.

    ## Why it matters

    A mounted filesystem continues to work without this superblock, because the kernel uses a copy
    in memory, and nothing is logged. The next mount fails, and so does the next boot if it needs
    the filesystem. Another program has written to the device: a wrong `dd`, `wipefs` or `pvcreate`,
    an installer, another host. That program may have overwritten other data as well. A device
    becomes smaller than its filesystem by `lvreduce` or a new partition table without resize2fs.

    ## Remedy

    Copy the data elsewhere while the filesystem is mounted; do not unmount the filesystem or
    restart before. Then repair the superblock from a backup superblock with `e2fsck -b`.

    ## When to ignore

    Do not ignore it.
    """
    if is_image(fs):
        raise NotApplicable("an image with a destroyed superblock is rejected before the audit")
    primary = need(fs.primary)
    if primary.damage:
        yield _finding(fs, primary)
        return
    own = superblock_field(fs, "size", lambda superblock: superblock.size_bytes)
    sizes = derive("sizes", lambda *both: both, device_bytes(fs), own)
    if isinstance(sizes, Known) and 0 < sizes.value[0] < sizes.value[1]:
        # dumpe2fs fails if the journal is beyond the end of the device.
        yield _cut_off(fs, *sizes.value)
    elif primary.failed is not None:
        raise Undetermined((primary.failed,))
    else:
        need(sizes)
        yield Citation("superblock on the device", "valid", origin_of(fs.primary))


def _finding(fs: Filesystem, primary: PrimarySuperblock) -> Finding:
    below = " although it is mounted" if fs.alive else ""
    then = "the next mount will fail" if fs.alive else "it cannot be mounted"
    return Finding(
        message=f"The superblock of {fs.device} is destroyed{below} ({primary.damage}): {then}.",
        severity=Severity.CRITICAL,
        confidence=Confidence.CONFIRMED,
        citations=tuple(_cite(fs, primary)),
        remedies=(remedies.checking.repair_from_backup(fs, block_bytes(fs)),),
        summary=f"the superblock on the device is destroyed: {then}",
    )


def _cut_off(fs: Filesystem, device: int, own: int) -> Finding:
    """Return the finding on a device that ends before the filesystem.

    The kernel compares the sizes at a mount: "bad geometry: block count exceeds size of device".
    """
    then = "the next mount will fail" if fs.alive else "it cannot be mounted"
    return Finding(
        message=f"{fs.device} is {size(own - device)} smaller than the filesystem on it: the end "
        f"of the filesystem is cut off, and {then}.",
        severity=Severity.CRITICAL,
        confidence=Confidence.LIKELY,
        citations=(
            Citation("filesystem", f"{own} bytes", origin_of(fs.superblock)),
            Citation("device", f"{device} bytes", origin_of(device_bytes(fs))),
        ),
        remedies=(ENLARGE,),
        fact="cut off",
        summary=f"the device is smaller than the filesystem: {then}",
    )


ENLARGE = Remedy(
    "Stop all writers. Give the device its former size again, with the same extents or sectors, "
    "before anything else uses them (vgcfgrestore or lvextend, the partition table), and then run "
    "e2fsck -f. Do not run e2fsck or resize2fs before.",
    Disruption.UNMOUNT,
    trade_off="What was written elsewhere in the meantime has overwritten the data that was cut "
    "off: restore that from a backup.",
)


def _cite(fs: Filesystem, primary: PrimarySuperblock) -> Iterator[Citation]:
    """Cite the superblock on the device and the kernel's copy of it."""
    yield Citation("superblock on the device", primary.damage, origin_of(fs.primary))
    if primary.failed is not None:
        yield Citation("dumpe2fs", primary.failed.detail, primary.failed.what)
    if isinstance(primary.kernel, Known):
        blocks, origin = primary.kernel.value.size_blocks, primary.kernel.origin
        yield Citation("kernel's copy", f"a filesystem of {blocks} blocks", origin)
    if fs.mount_points:
        yield Citation("mounted on", few(fs.mount_points), MOUNT_TABLE)
