"""CAP005: The volume was enlarged and the filesystem not, so that the new space lies idle."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import (
    BLOCKS_OF_32_BITS,
    block_bytes,
    cite_space,
    device_bytes,
    full_share,
    least_idle,
    origin_of,
    size,
)

FULL_SHARE = 0.8
MANY_TIMES = 16
"""From this growth on the journal and the group descriptors fit another class of size."""
KEPT = (
    " It keeps the journal, block size and inodes of a filesystem of its old size: one that is "
    "still empty is better made anew."
)


@rule(
    "CAP005",
    "filesystem-smaller-than-device",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/resize2fs.8.html",
        "https://docs.aws.amazon.com/ebs/latest/userguide/recognize-expanded-volume-linux.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether the device directly below a mounted filesystem is larger than the filesystem, by more
    than 1 % and more than 1 GiB: low, and medium where the filesystem is fuller than 80 %.

    ## Why it matters

    Enlarging a cloud disk, a partition or a logical volume does not enlarge what lies on it. It
    is paid for, and the filesystem fills up all the same.

    ## Remedy

    Run resize2fs on the device; a mounted filesystem grows while it is in use.

    ## When to ignore

    When the rest is left free on purpose, as over-provisioning of an SSD.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    device = need(device_bytes(fs))
    least = least_idle(device)
    usage = for_wording(fs.usage, None)
    if usage and device - usage.size_blocks * usage.block_bytes <= least:
        yield _cite_device(fs, device)
        yield from cite_space(fs)
        return
    superblock, each = need(fs.superblock, block_bytes(fs))
    own = superblock.size_blocks * each
    if device - own <= least:
        yield _cite_device(fs, device)
        yield _cite_size(fs, own)
    elif is_surely(fs.read_only):
        raise NotApplicable("it is mounted read-only: it does not grow, nor fill up")
    else:
        remedy = _remedy(fs, device, own, least)
        yield _finding(fs, device, own, remedy)


def _cite_device(fs: Filesystem, device: int) -> Citation:
    return Citation("device", size(device), origin_of(device_bytes(fs)))


def _cite_size(fs: Filesystem, own: int) -> Citation:
    return Citation("filesystem", f"{size(own)} ({own} bytes)", origin_of(fs.superblock))


def _finding(fs: Filesystem, device: int, own: int, remedy: Remedy) -> Finding:
    full = isinstance(fs.usage, Known) and full_share(fs.usage.value) > FULL_SHARE
    near = ", and it is more than 80 % full" if full else ""
    return Finding(
        message=f"{size(device - own)} of {fs.device} are not used: the device has {size(device)}, "
        f"the filesystem {size(own)}{near}.",
        severity=Severity.MEDIUM if full else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(_cite_device(fs, device), _cite_size(fs, own), *cite_space(fs)),
        remedies=(remedy,),
    )


def _remedy(fs: Filesystem, device: int, own: int, least: int) -> Remedy:
    if isinstance(fs.errors, Known) and fs.errors.value.errors > 0:
        return Remedy(
            "First let e2fsck check it (HLT001): the kernel grows no filesystem in which it "
            "recorded errors.",
            Disruption.UNMOUNT,
        )
    superblock = for_wording(fs.superblock, None)
    limit = BLOCKS_OF_32_BITS * for_wording(block_bytes(fs), 0)
    if (superblock is None or "64bit" not in superblock.features) and device > limit:
        return Remedy(
            f"First convert it to 64 bits (CAP003): without, it ends at {size(limit)}.",
            Disruption.UNMOUNT,
        )
    kept = KEPT if device > MANY_TIMES * own else ""
    return Remedy(
        "Grow it to the size of its device, while it is mounted.",
        Disruption.ONLINE,
        remedies.superblock_fields.grow_to_device(fs, most_idle_bytes=least),
        trade_off=f"Only an unmounted filesystem can be made smaller again.{kept}",
    )
