"""CAP009: The filesystem cannot grow much further, because of choices made when it was created."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.layout import Ceiling, ceiling_of
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field
from ext4audit.rules.shared.quantities import device_bytes, is_image, least_idle, size

NEAR_SHARE = 2
"""A filesystem of more than 1/NEAR_SHARE of its limit is near it: it cannot double in size."""


@rule(
    "CAP009",
    "growth-ceiling",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://github.com/tytso/e2fsprogs/issues/117",
        "https://github.com/tytso/e2fsprogs/issues/74",
        "https://git.kernel.org/pub/scm/fs/ext2/e2fsprogs.git/tree/doc/RelNotes/v1.47.2.txt",
        "https://docs.kernel.org/filesystems/ext4/blockgroup.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    The size beyond which the filesystem cannot grow. Two limits follow from its geometry: ext4 has
    at most 2^32 inodes, and growth adds the same number to each block group (64 TiB with the
    default of one inode per 16 KiB, 16 TiB with one per 4 KiB); and for resize2fs before 1.47.2 the
    group descriptors must fit into one block group (1 TiB with blocks of 1 KiB, 256 TiB with 4
    KiB). Severity is medium if the device is already larger than the limit, and low if the
    filesystem has more than half of that size. Findings on the limit of group descriptors have
    confidence likely, because the version of resize2fs is not known. CAP003 checks filesystems
    without the feature `64bit`.

    ## Why it matters

    The volume can be enlarged and paid for, but the filesystem cannot use it: resize2fs refuses
    with "resize would cause inodes_count overflow" in the kernel's log, or "New size results in
    too many block group descriptors". Neither inodes nor block size can be changed afterwards.

    ## Remedy

    Choose fewer inodes (`-i 65536`) or larger blocks when the filesystem is created, if it is to
    grow. For more group descriptors, use resize2fs 1.47.2 or newer, on a kernel without the bug
    that CAP005 describes. In all other cases, an existing filesystem must be recreated.

    ## When to ignore

    Ignore it if the volume will not be enlarged.
    """
    superblock = need(fs.superblock)
    if "64bit" not in superblock.features:
        raise NotApplicable("without 64bit, 2^32 blocks are the limit (CAP003)")
    if is_image(fs):
        raise NotApplicable("an image does not grow")
    sizes, device = need(superblock_field(fs, "geometry", lambda s: s.sizes), device_bytes(fs))
    ceiling, own = ceiling_of(sizes), sizes.size_bytes
    beyond = device > ceiling.size_bytes and device - own > least_idle(device)
    cited = (
        Citation("largest size", size(ceiling.size_bytes), "computed"),
        Citation("filesystem", size(own), origin_of(fs.superblock)),
        Citation("device", size(device), origin_of(device_bytes(fs)), detail=not beyond),
    )
    if beyond or own * NEAR_SHARE > ceiling.size_bytes:
        found = _finding(superblock, ceiling, cited, own, device if beyond else 0)
        yield found._replace(remedies=tuple(_remedies(ceiling, planned=host.planned)))
    else:
        yield from cited


def _finding(
    superblock: Superblock, ceiling: Ceiling, cited: tuple[Citation, ...], own: int, device: int
) -> Finding:
    """Return the finding; mke2fs also creates filesystems that are larger than the ceiling."""
    most = ceiling.size_bytes
    can = f"can grow to {size(most)} at most" if own < most else "cannot grow"
    lost = f", but its device has {size(device)}" if device else ""
    return Finding(
        message=f"The filesystem {can}{lost}: {_why(superblock, ceiling)}.",
        severity=Severity.MEDIUM if device else Severity.LOW,
        confidence=Confidence.CONFIRMED if ceiling.is_of_inodes else Confidence.LIKELY,
        citations=cited,
        summary="the filesystem cannot grow to the size of its device"
        if device
        else "the filesystem cannot be made twice as large",
    )


def _why(superblock: Superblock, ceiling: Ceiling) -> str:
    if ceiling.is_of_inodes:
        return (
            f"each block group has {superblock.inodes_per_group} inodes, and ext4 has at most 2^32"
        )
    return (
        f"with blocks of {superblock.block_bytes} bytes, resize2fs before 1.47.2 accepts no more "
        "group descriptors"
    )


def _remedies(ceiling: Ceiling, *, planned: bool) -> Iterator[Remedy]:
    how = (
        "fewer inodes (mkfs.ext4 -i 65536)" if ceiling.is_of_inodes else "blocks of 4 KiB (-b 4096)"
    )
    if planned:
        yield Remedy(f"Create it with {how}.", Disruption.ONLINE)
        return
    if not ceiling.is_of_inodes:
        yield Remedy(
            "Grow it with resize2fs 1.47.2 or newer, on a kernel without the bug that CAP005 "
            "describes.",
            Disruption.ONLINE,
        )
    yield Remedy(
        f"Recreate it with {how} after a backup: this cannot be changed in place.",
        Disruption.RECREATE,
        destructive=True,
    )
