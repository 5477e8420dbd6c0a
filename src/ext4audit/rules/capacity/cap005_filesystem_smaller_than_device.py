"""CAP005: The volume was enlarged and the filesystem not, so that the new space lies idle."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, is_surely, need
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
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
FIX = "a6b3bfe176e8"
"""The commit that ends the corruption; facts/kernel_bugs.toml has the kernels."""
SMALLER = "Only an unmounted filesystem can be made smaller again."
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
        "https://git.kernel.org/linus/a6b3bfe176e8a5b05ec4447404e412c2a3fc92cc",
        "https://docs.aws.amazon.com/ebs/latest/userguide/recognize-expanded-volume-linux.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the device directly below a mounted filesystem is larger than the filesystem, by more
    than 1 % and more than 1 GiB: low, and medium where the filesystem is fuller than 80 %.

    ## Why it matters

    Enlarging a cloud disk, a partition or a logical volume does not enlarge what lies on it. It
    is paid for, and the filesystem fills up all the same.

    ## Remedy

    Run resize2fs on the device; a mounted filesystem grows while it is in use. Kernels from 3.7
    without commit a6b3bfe176e8 (before 6.9, 6.8.3, 6.6.24, 6.1.84, 5.15.154, 5.10.215, 5.4.274
    and 4.19.312) can then destroy data of a filesystem that has meta_bg, lacks resize_inode, or
    grows beyond the group descriptors that mke2fs reserved (8 TiB of growth at most, or 16 TiB in
    all). There, and where the kernel or the features are not known, unmount it first.

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
        remedy = _remedy(fs, host, device, own, least)
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


def _remedy(fs: Filesystem, host: Host, device: int, own: int, least: int) -> Remedy:
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
    trade_off = f"{SMALLER}{KEPT if device > MANY_TIMES * own else ''}"
    danger = _danger(fs, host, device)
    if danger:
        steps = remedies.superblock_fields.grow_unmounted(fs, most_idle_bytes=least)
        return Remedy(
            f"Grow it to the size of its device, unmounted{remedies.offline.by_hand(fs, steps)}: "
            f"{danger}.",
            Disruption.UNMOUNT,
            steps,
            trade_off=trade_off,
        )
    return Remedy(
        "Grow it to the size of its device, while it is mounted.",
        Disruption.ONLINE,
        remedies.superblock_fields.grow_to_device(fs, most_idle_bytes=least),
        trade_off=trade_off,
    )


def _danger(fs: Filesystem, host: Host, device: int) -> str:
    """Return why it may not grow while it is mounted; empty where it may."""
    exposed = exposure("CAP005", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        return ""
    reason = _leaves(need(fs.superblock), device)
    if not reason:
        return ""
    is_sure = isinstance(exposed, Known) and exposed.value.confidence == "confirmed"
    lacks = "lacks" if is_sure else "may lack"
    return f"{reason}, and growth in use can destroy data on this kernel, which {lacks} {FIX}"


def _leaves(superblock: Superblock, device: int) -> str:
    """Return how growth leaves the reserved group descriptors; empty where it does not."""
    if "meta_bg" in superblock.features:
        return "it has meta_bg"
    if "resize_inode" not in superblock.features:
        return "it lacks resize_inode"
    most = _reserved_end(superblock)
    if most is None:
        return "how many group descriptors it has in reserve is not known"
    return f"its group descriptors end at {size(most)}" if device > most else ""


def _reserved_end(superblock: Superblock) -> int | None:
    """Return the size in bytes up to which group descriptors have a reserved place.

    None without root, where it is not known; and no more than 2^32 blocks, the end of the
    resize inode.
    """
    each, group = superblock.block_bytes, superblock.blocks_per_group
    reserved = superblock.reserved_gdt_blocks
    if each is None or group is None or reserved is None:
        return None
    wide = 64 if "64bit" in superblock.features else 32
    blocks_of_one = each // (superblock.descriptor_bytes or wide) * group
    used = -(-superblock.size_blocks // blocks_of_one)
    return min((used + reserved) * blocks_of_one, BLOCKS_OF_32_BITS) * each
