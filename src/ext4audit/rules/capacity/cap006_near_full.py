"""CAP006: The filesystem is nearly full: writing gets slower, and then fails."""

from __future__ import annotations

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import cite_space, full_share, size

NEARLY_FULL, FULL = 0.95, 0.99


@rule(
    "CAP006",
    "near-full",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man1/df.1.html",
        "https://docs.kernel.org/filesystems/ext4/overview.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    How full the filesystem is, as df counts: low from 95 % on, medium from 99 %. What is
    mounted read-only is not judged.

    ## Why it matters

    The allocator searches longer for contiguous free blocks and finds none: files are torn into
    fragments, and stay so. At the end programs other than root's fail to write.

    ## Remedy

    Delete, move or grow; where much is reserved for root, reserve less (CAP002).

    ## When to ignore

    Where monitoring watches the space already, and on volumes that hold one preallocated file.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    usage = need(fs.usage)
    share = full_share(usage)
    if share < NEARLY_FULL:
        yield from cite_space(fs)
        return
    if need(fs.read_only):
        raise NotApplicable("it is mounted read-only")
    yield Finding(
        message=_message(usage, share),
        severity=Severity.MEDIUM if share >= FULL else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=cite_space(fs),
        remedies=REMEDIES,
    )


def _message(usage: Usage, share: float) -> str:
    left = usage.available_blocks * usage.block_bytes
    if left <= 0:
        return "It is full: nobody but root can write."
    return (
        f"It is {int(share * 1000) / 10:g} % full, with {size(left)} left: new files are torn into "
        "fragments, and then writing fails."
    )


REMEDIES = (
    Remedy("Delete or move what is not needed.", Disruption.ONLINE),
    Remedy("Grow the volume, and then the filesystem (resize2fs).", Disruption.ONLINE),
    Remedy(
        "Where more than 1 % is reserved for root on a data volume, reserve less (tune2fs -m 1).",
        Disruption.ONLINE,
    ),
)
