"""PRF006: The kernel still zeroes inode tables in the background, which skews measurements."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need, origin_of
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule

LAST_GROUP = 1
"""The kernel often does not zero the last group."""
STOPPED = "noinit_itable"
WAIT = Remedy("Wait until it has finished.", Disruption.ONLINE)


@rule(
    "PRF006",
    "lazy-init-running",
    severity=Severity.INFO,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man8/mke2fs.8.html",
        "https://github.com/intel/lkp-tests/issues/368",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    How many block groups have an inode table that is not zeroed yet. mke2fs leaves this work to
    the kernel (`lazy_itable_init`): its thread ext4lazyinit zeroes one table after another while
    the filesystem is mounted writable. One remaining group is normal. With `noinit_itable` the
    kernel zeroes none.

    ## Why it matters

    The thread writes all inode tables once, 1.6 % of the filesystem with the defaults, and
    pauses ten times as long as each write took: a new filesystem of some terabytes is busy for
    an hour or more. A benchmark during that time measures this load as well.

    ## Remedy

    Wait, or let it run without pauses. Create new filesystems with
    `-E lazy_itable_init=0,lazy_journal_init=0`, which makes mkfs slower.

    ## When to ignore

    Ignore it, except before a benchmark or the handover of a new machine.
    """
    refuse_unmounted(fs)
    if need(fs.read_only):
        raise NotApplicable("it is read-only, which pauses the work")
    groups = need(fs.unzeroed_groups)
    seen = Citation("groups to be zeroed", str(groups), origin_of(fs.unzeroed_groups))
    if groups <= LAST_GROUP:
        yield seen
        return
    option = option_of(fs, "init_itable")
    stopped = option is not None and option.token == STOPPED
    state = "noinit_itable prevents it" if stopped else "the kernel is zeroing them"
    yield Finding(
        message=f"{groups} block groups have inode tables that are not zeroed yet, and {state}.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(seen,),
        remedies=(_without_pauses(fs),) if stopped else (WAIT, _without_pauses(fs)),
        summary="inode tables are not zeroed yet"
        if stopped
        else "the kernel is still zeroing inode tables",
    )


def _without_pauses(fs: Filesystem) -> Remedy:
    return Remedy(
        "Let the kernel zero them without pauses, and wait until it has finished.",
        Disruption.REMOUNT,
        remedies.features.zero_inode_tables(fs, LAST_GROUP),
        trade_off="Other work on the disk is slower in the meantime. The next mount uses the usual "
        "pauses again.",
    )
