"""KRN002: With a stripe set, this kernel can use 100 % of a CPU to search for free blocks."""

from __future__ import annotations

from ext4audit.evidence import Known, is_surely, need
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.versions import Exposure
from ext4audit.finding import Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.kernel import cite_bug
from ext4audit.rules.shared import (
    cite_kernel,
    cite_option,
    grade,
    in_brief,
    update,
)
from ext4audit.rules.shared.quantities import cite_stripe, stripe_in_force, stripe_off


@rule(
    "KRN002",
    "stripe-scan-cpu",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://bugzilla.kernel.org/show_bug.cgi?id=217965",
        "https://git.kernel.org/linus/1f6bc02f18489b9c9ea39b068d0695fb0e4567e9",
        "https://lore.kernel.org/all/cover.1702455010.git.ojaswin@linux.ibm.com/",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a stripe is in force (`stripe=`, which mke2fs sets on md arrays and on disks that report
    an optimal I/O size) on a kernel from 6.1 to 6.7 without commit 1f6bc02f1848 of 6.8. Confidence
    is likely from 6.5, and possible on vendor kernels, which may have backported the fix. On 6.4,
    for which reports contradict each other, severity is low; on 6.1 to 6.3, for which there are few
    reports, it is info.

    ## Why it matters

    The allocator searches for free blocks that start at a multiple of the stripe, and falls back
    to the most expensive search if it finds none. A writeback kworker ("flush-9:127") then uses
    100 % of a CPU for minutes or hours while the disks are almost idle, and everything that waits
    for writeback hangs. It is typically triggered by many small files on large arrays with parity;
    Cloudflare observed it on a RAID0 of NVMe disks.

    ## Remedy

    Update the kernel, or turn the stripe off, in the superblock and by remount. `stripe=0` in fstab
    has no effect, because a mount treats 0 as "use the superblock's value". A plan with a stripe
    and such a kernel has this finding as well, because the first scan would report it. The plan
    keeps the stripe: choose another kernel.

    ## When to ignore

    Ignore it if no flush kworker is busy: a stripe has no other drawback. Ignore it also if the
    vendor of the kernel has backported 1f6bc02f1848.
    """
    refuse_unmounted(fs)
    exposed = exposure("KRN002", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        yield cite_kernel(host, exposed.value)
        return
    stripe = stripe_in_force(fs, host)
    if stripe == 0:
        yield from cite_option(fs, "stripe")
        return
    yield _finding(fs, host, need(exposed), stripe)


def _finding(fs: Filesystem, host: Host, bug: Exposure, stripe: int) -> Finding:
    severity, confidence = grade(bug)
    message = f"{bug.symptom}: this filesystem has a stripe of {stripe} blocks"
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{message} and is mounted read-only"
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=in_brief((cite_kernel(host, bug), *cite_stripe(fs), cite_bug(bug))),
        remedies=(update(bug),) if host.planned else (_stripe_off(fs, host), update(bug)),
        summary="a stripe is set, with which this kernel can use 100 % of a CPU",
    )


def _stripe_off(fs: Filesystem, host: Host) -> Remedy:
    return stripe_off(fs, host)._replace(
        trade_off="Files are no longer aligned to the stripe: large writes to RAID5 or RAID6 read "
        "and rewrite parity more often. Turn the stripe on again after the kernel update.",
    )
