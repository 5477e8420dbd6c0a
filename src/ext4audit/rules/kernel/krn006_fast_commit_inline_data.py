"""KRN006: fast_commit and inline_data are both on, and a crash can damage small files."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, need, origin_of
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.kernel import bug_finding
from ext4audit.rules.shared import cite_kernel

FAST, INLINE = "fast_commit", "inline_data"


@rule(
    "KRN006",
    "fast-commit-inline-data",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://git.kernel.org/linus/6c31a689b2e9e1dee5cbe16b773648a2d84dfb02",
        "https://git.kernel.org/linus/1ebf21784b19d5bc269f39a5d1eedb7f29a7d152",
        "https://lore.kernel.org/linux-ext4/25105329.ouqheUzb2q@daniel-desktop3/",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the superblock has both features, `fast_commit` and `inline_data`, on a kernel from 5.10
    on. Before 5.16, fast commits left out the data of small files: severity is medium, confidence
    likely. On later kernels, damage after a crash was reported (6.17, in 2026). It ended when
    `fast_commit` was turned off, and its cause is not known: severity is low, confidence possible.
    mke2fs sets neither feature by default.

    ## Why it matters

    `inline_data` stores the content of small files and directories in their inodes. After a power
    failure, their content can be missing, and e2fsck -p stops with "UNEXPECTED INCONSISTENCY", so
    that the host does not boot without help.

    ## Remedy

    Remove `fast_commit` while the filesystem is unmounted. `inline_data` cannot be removed. After a
    crash, run `e2fsck -p` first: tune2fs does not replay fast commits.

    ## When to ignore

    Ignore it if files may be lost in a crash.
    """
    refuse_unmounted(fs)
    superblock = need(fs.superblock)
    both = frozenset({FAST, INLINE})
    present = both & superblock.features
    if present != both:
        shown = ", ".join(sorted(present)) or "not set"
        yield Citation(f"{FAST} and {INLINE}", shown, origin_of(fs.superblock))
        return
    exposed = exposure("KRN006", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        yield cite_kernel(host, exposed.value)
        return
    yield bug_finding(
        host,
        need(exposed),
        Citation("features", f"{FAST}, {INLINE}", origin_of(fs.superblock)),
        remedies=(remedies.features.without_fast_commit(fs),),
        summary="fast_commit and inline_data are on: a crash can damage small files",
        writes_to=fs,
    )
