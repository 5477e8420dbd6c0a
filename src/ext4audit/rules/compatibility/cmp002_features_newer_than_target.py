"""CMP002: The filesystem has features that its kernel does not know, so it may not mount."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import need, origin_of
from ext4audit.facts.features_and_bugs import FEATURES, Version, newer_features
from ext4audit.facts.host import Filesystem, Host, Kernel
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features
from ext4audit.rules.shared.quantities import is_image

SOFT = frozenset({"fast_commit", "orphan_file", "stable_inodes"})
"""Features with a compat bit: a kernel that does not support them still mounts the filesystem."""
READABLE = frozenset({"bigalloc", "metadata_csum", "project", "quota", "verity"})
"""Features with a ro_compat bit: without support, the kernel mounts it read-only at best."""

OLD_TOOLS_BEFORE: Version = (3, 18)
"""Systems with an older kernel have e2fsprogs before 1.43: RHEL 7 has 1.42.9, Debian 8 1.42.12."""
NOT_IN_OLD_TOOLS: Version = (1, 43)


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

    Whether the running kernel, or the kernel of the plan, knows all features of the filesystem.
    Severity is high if the kernel refuses to mount the filesystem, or mounts it only read-only (as
    with `metadata_csum`, `project` and `verity`), and medium if the kernel mounts it. In a plan for
    a kernel before 3.18, the rule also checks whether e2fsck knows the features: systems that old
    have e2fsprogs before 1.43.

    ## Why it matters

    mke2fs 1.47 sets features by default that older systems do not know: `metadata_csum_seed` and
    `orphan_file`. An image that was built with this version does not boot there, or e2fsck refuses
    it.

    ## Remedy

    Create it without the features, or remove them while it is unmounted.

    ## When to ignore

    Ignore it if the vendor has backported the feature to an older kernel.
    """
    if is_image(fs) and not host.planned:
        raise NotApplicable("the kernel that will mount it is unknown")
    superblock = need(fs.superblock)
    yield from cite_features(fs)
    kernel = need(host.kernel)
    yield Citation("kernel", kernel.release, origin_of(host.kernel))
    newer = (_unknown if host.planned else newer_features)(superblock.features, kernel)
    # A kernel that mounted the filesystem supports its features, except perhaps compat ones.
    concerned = newer if host.planned or not fs.alive else [f for f in newer if f in SOFT]
    if concerned:
        yield _finding(fs, host, kernel, concerned)


def _unknown(features: frozenset[str], kernel: Kernel) -> tuple[str, ...]:
    """Return, sorted, the features that the kernel or the e2fsck of its time does not support."""
    needs = {name: FEATURES[name].e2fsprogs for name in FEATURES.keys() & features}
    unchecked = {name for name, since in needs.items() if since and since >= NOT_IN_OLD_TOOLS}
    if kernel.upstream >= OLD_TOOLS_BEFORE:
        unchecked.clear()
    return tuple(sorted(unchecked.union(newer_features(features, kernel))))


def _end(features: frozenset[str]) -> str:
    """Return what a kernel that lacks these features does; the worst feature decides."""
    if not features:
        return "mounts it"
    if features <= SOFT:
        return "may refuse to mount it after a crash"
    return "refuses to write to it" if features <= SOFT | READABLE else "refuses to mount it"


def _finding(fs: Filesystem, host: Host, kernel: Kernel, features: Sequence[str]) -> Finding:
    unknown = frozenset(newer_features(frozenset(features), kernel))
    soft = SOFT.issuperset(unknown)
    end = _end(unknown)
    words = ", ".join(features)
    who = f"Linux {kernel.release} does" if unknown else f"Systems with Linux {kernel.release} do"
    return Finding(
        message=f"{who} not support features of the filesystem ({words}): "
        f"the kernel {end}, and its e2fsck refuses it.",
        severity=Severity.MEDIUM if soft else Severity.HIGH,
        confidence=Confidence.LIKELY,
        citations=cite_features(fs),
        remedies=(remedies.features.without_features(fs, features, planned=host.planned),),
        summary=f"has features that are newer than the kernel, which {end}",
    )
