"""LAY007: Space is allocated in clusters (bigalloc): small files take more space."""

from __future__ import annotations

from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features
from ext4audit.rules.shared.demands import demands_features
from ext4audit.rules.shared.quantities import size

FEATURE = "bigalloc"


@rule(
    "LAY007",
    "bigalloc-clusters",
    severity=Severity.INFO,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/storage-twp.html",
        "https://docs.kernel.org/filesystems/ext4/overview.html#bigalloc",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the filesystem has the feature `bigalloc`. Severity is info. The rule does not apply if
    a profile requires the feature.

    ## Why it matters

    The manual page ext4(5) still warns that `bigalloc` is under development. Every file takes at
    least a cluster. resize2fs 1.47.0 counts all space as used, even on an empty filesystem, and so
    refuses to shrink it. Few systems use it, so bugs are found late.

    ## Remedy

    The feature cannot be removed in place. If nothing needs it, recreate the filesystem without it.

    ## When to ignore

    Ignore it if `bigalloc` was chosen on purpose: AWS documents ext4 with 16 KiB clusters for MySQL
    with torn write prevention, and object stores with large files need fewer bitmaps with it.
    """
    profile = demands_features(fs, host).get(FEATURE)
    if profile is not None:
        raise NotApplicable(f"{profile.product} requires it")
    superblock = need(fs.superblock)
    if FEATURE not in superblock.features:
        yield from cite_features(fs)
        return
    yield Finding(
        message=f"bigalloc is on{_clusters(superblock)}: it is rarely used, and the filesystem "
        "cannot be shrunk.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(*cite_features(fs), *_stripe(fs, superblock)),
        remedies=(
            Remedy(
                "If nothing needs it: back up, recreate with mkfs.ext4 -O ^bigalloc, and restore: "
                f"mkfs DESTROYS all data on {fs.device}.",
                Disruption.RECREATE,
                destructive=True,
            ),
        ),
        summary="bigalloc is on: rarely used, and the filesystem cannot be shrunk",
    )


def _clusters(superblock: Superblock) -> str:
    if not superblock.block_bytes or not superblock.cluster_blocks:
        return ""
    return f" with clusters of {_kib(superblock.block_bytes * superblock.cluster_blocks)}"


def _kib(count_bytes: int) -> str:
    return f"{count_bytes >> 10} KiB" if count_bytes < 1 << 20 else size(count_bytes)


def _stripe(fs: Filesystem, superblock: Superblock) -> tuple[Citation, ...]:
    """Cite a stripe that is not a multiple of a cluster: Linux 6.6 and later ignore it."""
    width, cluster = superblock.stripe_width_blocks, superblock.cluster_blocks
    if not width or not cluster or width % cluster == 0 or not isinstance(fs.superblock, Known):
        return ()
    value = f"{width} blocks, not a multiple of the cluster ({cluster} blocks)"
    return (Citation("stripe width", value, fs.superblock.origin),)
