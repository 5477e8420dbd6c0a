"""CAP006: The filesystem is nearly full: writes get slower and then fail."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import for_wording, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared.quantities import cite_space, full_share, size

NEARLY_FULL, FULL = 0.95, 0.99
LEAST_PERCENT = 1
"""The reserve after the last remedy, which would enlarge that of a CSI driver (none)."""


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

    How full the filesystem is, as df counts: severity is low from 95 %, medium from 99 %.
    Filesystems that are mounted read-only are not checked.

    ## Why it matters

    The allocator searches longer for contiguous free blocks and finds none: new files become
    fragmented and stay fragmented. Finally, writes of all users except root fail.

    ## Remedy

    Delete or move files, or grow the filesystem. If more than 1 % is reserved for root, reserve
    less (see CAP002).

    ## When to ignore

    Ignore it if monitoring already watches the space, and on volumes with one preallocated file.
    """
    refuse_unmounted(fs)
    usage = need(fs.usage)
    share = full_share(usage)
    if share < NEARLY_FULL:
        yield from cite_space(fs)
        return
    if need(fs.read_only):
        raise NotApplicable("it is mounted read-only")
    left = usage.available_blocks * usage.block_bytes
    who = "nobody" if _reserved_percent(fs) == 0 else "only root"
    full = f"The filesystem is full: {who} can write."
    nearly = (
        f"The filesystem is {int(share * 1000) / 10:g} % full ({size(left)} left): new files "
        "become fragmented, and writes will fail."
    )
    yield Finding(
        message=nearly if left > 0 else full,
        severity=Severity.MEDIUM if share >= FULL else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=cite_space(fs),
        remedies=tuple(_remedies(fs)),
        summary="the filesystem is nearly full" if left > 0 else "no space left",
    )


def _reserved_percent(fs: Filesystem) -> float | None:
    """Return the share that is reserved for root, None if it is not known."""
    superblock = for_wording(fs.superblock, None)
    if superblock is None or superblock.reserved_blocks is None or not superblock.size_blocks:
        return None
    return superblock.reserved_blocks * 100 / superblock.size_blocks


def _remedies(fs: Filesystem) -> Iterator[Remedy]:
    yield Remedy("Delete or move files.", Disruption.ONLINE)
    yield Remedy("Grow the volume, and then the filesystem (resize2fs).", Disruption.ONLINE)
    reserved = _reserved_percent(fs)
    if reserved is None or reserved > LEAST_PERCENT:
        reduce = "On a data volume, reserve less for root (tune2fs -m 1)."
        yield Remedy(reduce, Disruption.ONLINE)
