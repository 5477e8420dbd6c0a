"""KRN002: With a stripe set, this kernel may spend a whole CPU on looking for free blocks."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, is_surely, need
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.versions import Exposure
from ext4audit.finding import Citation, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import (
    cite_bug,
    cite_kernel,
    cite_option,
    grade,
    in_rootflags,
    update,
)
from ext4audit.rules.shared.quantities import at_mount, cite_hints, in_force

NO_STRIPE = "stripe=0"


@rule(
    "KRN002",
    "stripe-scan-cpu",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,  # a plan stores the array's stripe, which a kernel's bug is no reason to lose
    references=(
        "https://bugzilla.kernel.org/show_bug.cgi?id=217965",
        "https://git.kernel.org/linus/1f6bc02f18489b9c9ea39b068d0695fb0e4567e9",
        "https://lore.kernel.org/all/cover.1702455010.git.ojaswin@linux.ibm.com/",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a stripe is in force (`stripe=`, which mke2fs stores by itself on md arrays and on
    disks that report an optimal I/O size) on a kernel from 6.1 to 6.7, without commit
    1f6bc02f1848 of 6.8. From 6.5 on it is likely; on the kernels of vendors, who may have put
    that back, it is possible; on 6.1 to 6.4, of which there are few reports, it is an info.

    ## Why it matters

    The allocator looks for free blocks that begin at a multiple of the stripe, and falls through
    to the most expensive search when it finds none. Writeback then sits in one kworker
    ("flush-9:127") at 100 % of a CPU for minutes or hours while the disks have next to nothing
    to do, and everything that waits for writeback hangs. Many small files on large arrays with
    parity bring it about; Cloudflare met it on RAID0 of NVMe disks.

    ## Remedy

    Update the kernel, or turn the stripe off: in the superblock, and by remount for now.
    `stripe=0` in fstab does not do it, because a mount takes 0 for "as the superblock says".

    ## When to ignore

    When no flush kworker is busy: nothing else is wrong with a stripe. Where the kernel's vendor
    has taken 1f6bc02f1848 over.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    exposed = exposure("KRN002", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        yield cite_kernel(host, exposed.value)
        return
    stripe = _stripe(fs, host)
    if stripe == 0:
        yield from cite_option(fs, "stripe")
        return
    yield _finding(fs, host, need(exposed), stripe)


def _stripe(fs: Filesystem, host: Host) -> int:
    """Return the stripe in blocks; of the superblock in a plan, which has no mount table."""
    option = option_of(fs, "stripe")
    is_set = option is not None and option.token != NO_STRIPE
    return at_mount(need(fs.superblock)) if host.planned and not is_set else in_force(fs)


def _finding(fs: Filesystem, host: Host, bug: Exposure, stripe: int) -> Finding:
    severity, confidence = grade(bug)
    message = f"{bug.symptom}: this filesystem has a stripe of {stripe} blocks"
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{message}, and is mounted read-only"
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(cite_kernel(host, bug), cite_bug(bug), *_cite_stripe(fs)),
        remedies=(_stripe_off(fs, host), update(bug)),
    )


def _cite_stripe(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the stripe in force, and the superblock's two fields."""
    return (*cite_option(fs, "stripe"), *cite_hints(fs))


def _stripe_off(fs: Filesystem, host: Host) -> Remedy:
    superblock = for_wording(fs.superblock, None)
    steps = remedies.superblock_fields.set_stripe(fs, superblock, 0, 0) if superblock else ()
    more = "" if superblock else " Scan as root for the commands: the superblock was not read."
    if in_rootflags(fs, host, "stripe"):
        more += " Take stripe= out of rootflags= in the boot loader's configuration as well."
    return Remedy(
        f"Turn the stripe off, now and in the superblock.{more}",
        remedies.options.disruption(steps) if steps else Disruption.REMOUNT,
        steps,
        trade_off="Files are no longer aligned to the stripe: large writes to RAID5 or RAID6 read "
        "and rewrite parity more often. Turn it on again after the update.",
    )
