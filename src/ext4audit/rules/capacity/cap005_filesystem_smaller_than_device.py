"""CAP005: The volume was enlarged but not the filesystem, so the new space is unused."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, is_surely, need, origin_of
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.layout import ceiling_of
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared.quantities import (
    BLOCKS_OF_32_BITS,
    block_bytes,
    cite_space,
    device_bytes,
    full_share,
    least_idle,
    may_be_followed,
    size,
)

FULL_SHARE = 0.8
MANY_TIMES = 16
"""Beyond this growth factor, journal and group descriptors only suit a smaller size class."""
FIX = "a6b3bfe176e8"
"""The commit that fixes the corruption; facts/tables/kernel_bugs.toml lists the kernels."""
KEPT = (
    " The journal, block size and inode ratio remain those of the old size: recreate the "
    "filesystem instead if it is still empty."
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

    Whether the device of a mounted filesystem is larger than the filesystem, by more than 1 % and
    more than 1 GiB. Severity is low, and medium if the filesystem is more than 80 % full. A
    loop device that starts at an offset in its file is not checked: what follows the filesystem
    may be the next partition of a disk image.

    ## Why it matters

    Enlarging a cloud disk, a partition or a logical volume does not enlarge the filesystem on it.
    The new space is paid for but cannot be used.

    ## Remedy

    Run resize2fs on the device; this works while the filesystem is mounted. Kernels from 3.7
    without commit a6b3bfe176e8 (before 6.9, 6.8.3, 6.7.12, 6.6.24, 6.1.84, 5.15.154, 5.10.215,
    5.4.274 and 4.19.312) can destroy data in an online resize if the filesystem has `meta_bg`,
    lacks `resize_inode`, or grows beyond the group descriptors that mke2fs reserved (at most 8 TiB
    of growth, or 16 TiB in total). In these cases, and if the kernel or the features are unknown,
    unmount the filesystem first. Unmount it as well if it has `sparse_super2`: no kernel can grow
    such a filesystem online.

    ## When to ignore

    Ignore it if the rest is left unused on purpose, for example to over-provision an SSD.
    """
    refuse_unmounted(fs)
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
        raise NotApplicable("it is mounted read-only")
    elif need(may_be_followed(fs)):
        raise NotApplicable("it starts inside a file, and other data may follow it there")
    else:
        remedy = _remedy(fs, host, device, own, least)
        yield _finding(fs, device, own, remedy)
        need(fs.usage)


def _cite_device(fs: Filesystem, device: int) -> Citation:
    return Citation("device", size(device), origin_of(device_bytes(fs)))


def _cite_size(fs: Filesystem, own: int) -> Citation:
    return Citation("filesystem", f"{size(own)} ({own} bytes)", origin_of(fs.superblock))


def _finding(fs: Filesystem, device: int, own: int, remedy: Remedy) -> Finding:
    full = isinstance(fs.usage, Known) and full_share(fs.usage.value) > FULL_SHARE
    near = " and is more than 80 % full" if full else ""
    return Finding(
        message=f"{size(device - own)} of {fs.device} are unused: the device has {size(device)}, "
        f"the filesystem has {size(own)}{near}.",
        severity=Severity.MEDIUM if full else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(_cite_device(fs, device), _cite_size(fs, own), *cite_space(fs)),
        remedies=(remedy,),
        summary="the filesystem is smaller than its device",
    )


def _remedy(fs: Filesystem, host: Host, device: int, own: int, least: int) -> Remedy:
    if isinstance(fs.errors, Known) and fs.errors.value.errors > 0:
        return Remedy(
            "Check the filesystem with e2fsck first (see HLT001): the kernel refuses to grow a "
            "filesystem with recorded errors.",
            Disruption.UNMOUNT,
        )
    superblock = for_wording(fs.superblock, None)
    limit = BLOCKS_OF_32_BITS * for_wording(block_bytes(fs), 0)
    if (superblock is None or "64bit" not in superblock.features) and device > limit:
        return Remedy(
            f"Convert it to 64 bits first (see CAP003): without 64bit, the limit is {size(limit)}.",
            Disruption.UNMOUNT,
        )
    sizes = superblock.sizes if superblock else None
    most = ceiling_of(sizes).size_bytes if sizes else device
    if device > most:
        at_most = f"Grow it to {size(most)} at most (resize2fs with that size): "
        how = at_most if own < most else "Do not run resize2fs yet: "
        return Remedy(f"{how}it cannot become larger (see CAP009).", Disruption.ONLINE)
    smaller = "A filesystem can only be shrunk while it is unmounted."
    trade_off = f"{smaller}{KEPT if device > MANY_TIMES * own else ''}"
    danger = _online_danger(fs, host, device)
    if danger:
        steps = remedies.superblock_fields.grow_unmounted(fs, most_idle_bytes=least)
        return Remedy(
            "Grow it to the size of its device while it is unmounted"
            f"{remedies.remount.by_hand(fs, steps)}: {danger}.",
            Disruption.UNMOUNT,
            steps,
            trade_off=trade_off,
        )
    # resize2fs asks the kernel through a mount, and finds the device busy without one (1.47.0).
    where = remedies.remount.elsewhere(fs)
    return Remedy(
        f"Grow it to the size of its device, while it is mounted{where}.",
        Disruption.ONLINE,
        () if where else remedies.superblock_fields.grow_to_device(fs, most_idle_bytes=least),
        trade_off=trade_off,
    )


def _online_danger(fs: Filesystem, host: Host, device: int) -> str:
    """Return why it must not be grown while it is mounted; empty if it can be."""
    superblock = need(fs.superblock)
    if "sparse_super2" in superblock.features:
        return "no kernel grows it with sparse_super2 while it is mounted"
    exposed = exposure("CAP005", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        return ""
    reason = _exceeds_reserve(superblock, device)
    if not reason:
        return ""
    is_sure = isinstance(exposed, Known) and exposed.value.confidence == "confirmed"
    lacks = "lacks" if is_sure else "may lack"
    return (
        f"{reason}, and this kernel {lacks} commit {FIX}, without which an online resize can "
        "destroy data"
    )


def _exceeds_reserve(superblock: Superblock, device: int) -> str:
    """Return why growth needs more than the reserved group descriptors; empty if it does not."""
    if "meta_bg" in superblock.features:
        return "it has meta_bg"
    if "resize_inode" not in superblock.features:
        return "it lacks resize_inode"
    most = _reserved_end(superblock)
    if most is None:
        return "the number of reserved group descriptors is unknown"
    return f"its reserved group descriptors end at {size(most)}" if device > most else ""


def _reserved_end(superblock: Superblock) -> int | None:
    """Return the size in bytes up to which space for group descriptors is reserved.

    It is at most 2^32 blocks, the limit of the resize inode. None without root, because it is
    then unknown.
    """
    sizes = superblock.sizes
    if sizes is None:
        return None
    blocks_of_one = sizes.block_bytes // sizes.descriptor_bytes * sizes.blocks_per_group
    used = -(-sizes.size_blocks // blocks_of_one)
    most = min((used + sizes.reserved_gdt_blocks) * blocks_of_one, BLOCKS_OF_32_BITS)
    return most * sizes.block_bytes
