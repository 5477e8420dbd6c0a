"""HLT004: Metadata has no checksums, so silent corruption is not detected."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features
from ext4audit.rules.shared.quantities import size

LARGE_BYTES = 1 << 40
IN_PLAN = Remedy(
    "Create it with -O metadata_csum,64bit if all systems that will use it support these features.",
    Disruption.ONLINE,
)


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

    Whether the feature `metadata_csum` is on. mke2fs sets it by default since 1.44, and that of
    Debian and Ubuntu since 1.43. Linux writes to such filesystems from 3.5 on; ext4(5) names 3.18.
    Severity is info, and low above 1 TiB. Filesystems without extents are not checked.

    ## Why it matters

    With checksums, the kernel detects metadata that a disk, a cable or a controller has altered
    when it reads the block, and reports an error. Without them, the kernel uses the altered
    metadata: if a bitmap is corrupt, for example, it assigns blocks of one file to another.

    ## Remedy

    Turn it on with tune2fs while the filesystem is unmounted and freshly checked, then run
    `e2fsck -f -D`: full blocks of directories have no room for a checksum, and the kernel cannot
    read them until e2fsck has rebuilt them. tune2fs rewrites all metadata, which takes as long as a
    check. Without the feature `64bit`, the checksums of the bitmaps have only 16 of 32 bits: run
    `resize2fs -b` first.

    ## When to ignore

    Ignore it if systems without support for the feature must use the filesystem: kernels before
    3.5, or e2fsprogs before 1.43, such as that of RHEL 7.
    """
    superblock = need(fs.superblock)
    if "metadata_csum" in superblock.features:
        yield from cite_features(fs)
        return
    if "extent" not in superblock.features:
        raise NotApplicable("it was created as ext2 or ext3")
    yield Finding(
        message="Metadata has no checksums (metadata_csum): corruption by a disk or a cable is not "
        "detected and can damage files.",
        severity=Severity.LOW if (superblock.size_bytes or 0) > LARGE_BYTES else Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=cite_features(fs),
        remedies=(IN_PLAN if host.planned else _remedy(fs, superblock),),
        summary="metadata has no checksums (metadata_csum)",
    )


def _remedy(fs: Filesystem, superblock: Superblock) -> Remedy:
    steps = remedies.features.enable_metadata_csum(fs, superblock)
    narrow = "" if "64bit" in superblock.features else " Run resize2fs -b on it first."
    much = size(superblock.size_bytes) if superblock.size_bytes else "the filesystem"
    return Remedy(
        f"Turn on metadata checksums{remedies.remount.by_hand(fs, steps)}.{narrow}",
        Disruption.UNMOUNT,
        steps,
        trade_off=f"All metadata of {much} is read and rewritten while it is unmounted; an "
        "interruption requires a full e2fsck. Systems without support for the feature can mount "
        "it only read-only.",
    )
