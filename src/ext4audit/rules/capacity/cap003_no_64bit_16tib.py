"""CAP003: A filesystem without the 64bit feature cannot grow beyond 2^32 blocks, often 16 TiB."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, need, origin_of
from ext4audit.facts.devices import IMAGES
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import BLOCKS_OF_32_BITS, block_bytes, device_bytes, size

SMALLEST_BLOCK_BYTES = 1024
NEAR = 2
"""A device of at least 1/NEAR of the limit can exceed it after one enlargement."""
OLD_FORMAT = Remedy(
    "Move the data to a new ext4 filesystem. Converting in place requires tune2fs -O extent first, "
    "and the filesystem can then no longer be mounted as ext3.",
    Disruption.RECREATE,
    destructive=True,
)


@rule(
    "CAP003",
    "no-64bit-16tib",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://man7.org/linux/man-pages/man8/resize2fs.8.html",
        "https://docs.kernel.org/filesystems/ext4/overview.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a filesystem on a large device lacks the feature `64bit`. Without it, a filesystem is
    limited to 2^32 blocks: 16 TiB with 4 KiB blocks, 4 TiB with 1 KiB blocks. Severity is medium if
    the device has half of that size or more, and high if it is larger than the limit. Smaller
    devices are not checked, except in a plan (info).

    ## Why it matters

    resize2fs refuses to grow the filesystem beyond the limit, which is usually found out when the
    volume is full and has just been enlarged. Without `64bit`, the checksums of the bitmaps have
    only 16 of 32 bits as well.

    ## Remedy

    Convert it with resize2fs -b while it is unmounted. This moves metadata: make a backup first.
    e2fsprogs 1.43 or newer is required.

    ## When to ignore

    Ignore it if the volume will certainly not grow.
    """
    if isinstance(fs.superblock, Known) and "64bit" in fs.superblock.value.features:
        yield Citation("features", "64bit", fs.superblock.origin)
        return
    device = need(device_bytes(fs))
    smallest = BLOCKS_OF_32_BITS * _smallest_block_bytes(fs)
    if device * NEAR < smallest and not host.planned:
        raise NotApplicable(f"{size(device)} is far below {size(smallest)}")
    superblock, each = need(fs.superblock, block_bytes(fs))
    limit = BLOCKS_OF_32_BITS * each
    if device * NEAR < limit and not host.planned:
        raise NotApplicable(f"{size(device)} is far below {size(limit)}")
    yield _finding(fs, superblock, device, limit)


def _smallest_block_bytes(fs: Filesystem) -> int:
    """Return the block size from statfs(2), which needs no root, else the smallest possible one."""
    usage = for_wording(fs.usage, None)
    return usage.block_bytes if usage else SMALLEST_BLOCK_BYTES


def _finding(fs: Filesystem, superblock: Superblock, device: int, limit: int) -> Finding:
    # An image has no device: its own size was compared with the limit.
    is_own = need(fs.stack).kind in IMAGES
    end = f"{'it' if is_own else 'the device'} has {size(device)}"
    severity = Severity.MEDIUM if device * NEAR >= limit else Severity.INFO
    if device > limit:
        end, severity = f"it cannot use {size(device - limit)} of the device", Severity.HIGH
    each = limit // BLOCKS_OF_32_BITS
    return Finding(
        message=f"Without 64bit, the filesystem is limited to {size(limit)}; {end}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(
            Citation("features", " ".join(sorted(superblock.features)), origin_of(fs.superblock)),
            Citation("block size", f"{each} bytes", origin_of(block_bytes(fs))),
            Citation(
                "filesystem size" if is_own else "device size",
                size(device),
                origin_of(device_bytes(fs)),
            ),
        ),
        remedies=(_remedy(fs) if "extent" in superblock.features else OLD_FORMAT,),
        summary="without 64bit, the filesystem cannot grow beyond 2^32 blocks",
    )


def _remedy(fs: Filesystem) -> Remedy:
    steps = remedies.features.convert_to_64bit(fs)
    return Remedy(
        "After a backup, convert it to 64 bits (e2fsck -f, resize2fs -b)"
        f"{remedies.remount.by_hand(fs, steps)}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="It rewrites the group descriptors and may move inode tables: an interruption "
        "can destroy the filesystem, and a large one is unavailable for minutes.",
    )
