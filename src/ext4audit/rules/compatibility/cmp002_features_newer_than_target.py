"""CMP002: The filesystem has features that its kernel does not know, and may not be mountable."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.features_and_bugs import FEATURES
from ext4audit.facts.host import Filesystem, Host, Kernel
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features
from ext4audit.rules.shared.quantities import IMAGES

SOFT = frozenset({"fast_commit", "orphan_file", "stable_inodes"})
"""Features with a compat bit: a kernel that does not know them mounts the filesystem."""


@rule(
    "CMP002",
    "features-newer-than-target",
    severity=Severity.HIGH,
    since="0.2",
    in_plans=True,
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://github.com/tytso/e2fsprogs/issues/147",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the kernel that is to mount the filesystem, the one that runs or that of the plan, is
    at least the first that knows each of its features. High where the kernel refuses to mount it
    or to write to it, medium where it mounts it.

    ## Why it matters

    mke2fs 1.47 sets features by default that older systems do not know: metadata_csum_seed and
    orphan_file. An image built there does not boot on them, or their e2fsck refuses it.

    ## Remedy

    Make it without the features, or take them out while it is unmounted.

    ## When to ignore

    Where a vendor has put the feature into an older kernel.
    """
    if isinstance(fs.stack, Known) and fs.stack.value.kind in IMAGES and not host.planned:
        raise NotApplicable("the kernel that is to mount it is not known")
    superblock = need(fs.superblock)
    yield from cite_features(fs)
    kernel = need(host.kernel)
    yield Citation("kernel", kernel.release, "uname -r")
    newer = _newer(superblock.features, kernel)
    # What a kernel has mounted, it knows; the others it takes without looking.
    concerned = newer if host.planned or not fs.alive else [f for f in newer if f in SOFT]
    if concerned:
        yield _finding(fs, host, kernel, concerned)


def _newer(features: frozenset[str], kernel: Kernel) -> list[str]:
    known = {name: needs.kernel for name, needs in FEATURES.items() if name in features}
    return [name for name, first in sorted(known.items()) if first and not kernel.since(*first)]


def _finding(fs: Filesystem, host: Host, kernel: Kernel, features: Sequence[str]) -> Finding:
    soft = SOFT.issuperset(features)
    end = "it mounts it, but not always after a crash" if soft else "it refuses to mount it"
    return Finding(
        message=f"Linux {kernel.release} is older than {', '.join(features)}, which the filesystem "
        f"has: {end}, and e2fsck of its time refuses it.",
        severity=Severity.MEDIUM if soft else Severity.HIGH,
        confidence=Confidence.LIKELY,
        citations=cite_features(fs),
        remedies=(remedies.features.without_features(fs, features, planned=host.planned),),
    )
