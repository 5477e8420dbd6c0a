"""HLT004: Metadata has no checksums, so that its silent corruption goes unnoticed."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features
from ext4audit.rules.shared.quantities import size

FEATURE = "metadata_csum"
LARGE_BYTES = 1 << 40


@rule(
    "HLT004",
    "metadata-csum-missing",
    severity=Severity.LOW,
    since="0.2",
    in_plans=True,
    references=(
        "https://docs.kernel.org/filesystems/ext4/checksums.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the feature metadata_csum is on; mke2fs sets it since 1.43, and ext4(5) names kernel
    3.18 as the first to support it. A note, and low above 1 TiB. Filesystems without extents are
    not judged.

    ## Why it matters

    With checksums, a block of metadata that a disk, a cable or a controller altered is found
    when it is read, and reported as an error. Without them the kernel believes it: a wrong bitmap
    gives blocks of one file to another.

    ## Remedy

    tune2fs turns it on while the filesystem is unmounted and freshly checked; it rewrites all
    metadata, which takes as long as a check. Without the feature 64bit the checksums of group
    descriptors and bitmaps have 16 bits only: `resize2fs -b` first.

    ## When to ignore

    Where systems must read it that know nothing of the feature: kernels before 3.18, e2fsprogs
    before 1.43, RHEL 7.
    """
    superblock = need(fs.superblock)
    if FEATURE in superblock.features:
        yield from cite_features(fs)
        return
    if "extent" not in superblock.features:
        raise NotApplicable("it was made as ext2 or ext3")
    yield Finding(
        message="Metadata has no checksums: what a disk or a cable alters in it is believed, and "
        "damages files before anybody notices.",
        severity=Severity.LOW if _size(superblock) > LARGE_BYTES else Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=cite_features(fs),
        remedies=(_in_plan() if host.planned else _remedy(fs, superblock),),
    )


def _size(superblock: Superblock) -> int:
    return superblock.size_blocks * (superblock.block_bytes or 0)


def _in_plan() -> Remedy:
    return Remedy(
        "Make it with -O metadata_csum,64bit, if all systems that are to read it know that.",
        Disruption.ONLINE,
    )


def _remedy(fs: Filesystem, superblock: Superblock) -> Remedy:
    steps = remedies.features.enable_metadata_csum(fs, superblock)
    narrow = "" if "64bit" in superblock.features else " Run resize2fs -b on it before that."
    much = size(_size(superblock)) if superblock.block_bytes else "the filesystem"
    return Remedy(
        f"Turn checksums on{remedies.offline.by_hand(fs, steps)}.{narrow}",
        Disruption.UNMOUNT,
        steps,
        trade_off=f"All metadata of {much} is read and written once, meanwhile it is unmounted; "
        "an interruption needs a full e2fsck. Systems that do not know the feature can only read "
        "it.",
    )
