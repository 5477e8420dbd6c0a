"""CAP002: Much space of a data filesystem is reserved for root, and nobody else can use it."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, for_wording, need
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field
from ext4audit.rules.shared.quantities import GIB, cite_space, origin_of, percent, size

MUCH_BYTES = 50 * GIB
MUCH_PERCENT = 4
LARGE_BYTES = 100 * GIB
"""Smaller filesystems keep mke2fs's 5 % without a finding."""
SYSTEM = ("/", "/usr", "/var", "/var/log", "/boot")
"""Where root and its daemons must be able to write when users have filled the rest."""
SCARCE_PERCENT = 10
KEPT_PERCENT = 1
KEPT_BYTES = 20 * GIB
"""What is left of the reserve: the allocator needs some free space to find contiguous blocks."""
KERNELS_OWN_BLOCKS = 4096
"""The most clusters that the kernel reserves for itself beside root's reserve
(ext4_calculate_resv_clusters); statfs(2) counts them as not available."""


@rule(
    "CAP002",
    "reserved-blocks-huge",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,
    references=(
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://github.com/kubernetes/kubernetes/issues/64102",
        "https://github.com/cockroachdb/cockroach/issues/93120",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    How much of a filesystem of 100 GiB or more is reserved for root: from 4 %, or above 50 GiB.
    It is low, and medium where users have less than 10 % left. The root filesystem, /usr, /var,
    /var/log and /boot are left alone, and so is a reserve that mount options give to
    another user or group.

    ## Why it matters

    mke2fs reserves 5 %, whatever the size: on 4 TB that is 200 GB that df shows as neither used
    nor available. Databases and containers run as other users and get "No space left on device"
    while it lies idle.

    ## Remedy

    Keep 1 %, at most 20 GiB, and give the rest to the users; it works while it is mounted. A
    rest must stay: in the last free blocks files are torn into fragments.

    ## When to ignore

    Where the reserve is ballast, to be released on the day when the disk is full.
    """
    if not need(fs.mounted_here):
        raise NotApplicable("not mounted in this mount namespace: what it is for is not known")
    system = [point for point in fs.mount_points if point in SYSTEM]
    if system:
        raise NotApplicable(f"{system[0]} needs a reserve for root")
    usage = need(fs.usage)
    total = usage.size_blocks * usage.block_bytes
    if total < LARGE_BYTES:
        raise NotApplicable(f"it is smaller than {size(LARGE_BYTES)}")
    owner = _other_owner(fs)
    if owner:
        raise NotApplicable(f"the reserve is for another owner: {owner}")
    reserved = need(_reserved_blocks(fs, usage))
    if not _is_much(reserved, usage):
        yield _cite(fs, reserved, usage)
    elif need(fs.read_only):
        raise NotApplicable("it is mounted read-only: nobody writes to it")
    else:
        yield _finding(fs, usage, reserved)


def _other_owner(fs: Filesystem) -> str | None:
    """Return the option that gives the reserve to another owner than root."""
    options = for_wording(fs.options, None)
    found = (options.find(name) for name in ("resuid", "resgid")) if options else ()
    return next((o.token for o in found if o and not o.token.endswith("=0")), None)


def _reserved_blocks(fs: Filesystem, usage: Usage) -> Evidence[int]:
    """Return the reserve: of the superblock, else the difference of statfs's two counts.

    Once users have no block left, the difference is only what root has not used of the reserve.
    It is then a lower bound, and suffices where it is large already.
    """
    exact = superblock_field(fs, "reserved blocks", lambda superblock: superblock.reserved_blocks)
    unavailable = usage.free_blocks - usage.available_blocks
    if isinstance(exact, Unknown) and (usage.available_blocks > 0 or _is_much(unavailable, usage)):
        return Known(max(0, unavailable - KERNELS_OWN_BLOCKS), origin_of(fs.usage))
    return exact


def _is_much(reserved: int, usage: Usage) -> bool:
    much = reserved * usage.block_bytes > MUCH_BYTES
    return much or reserved * 100 >= MUCH_PERCENT * usage.size_blocks


def _cite(fs: Filesystem, reserved: int, usage: Usage) -> Citation:
    value = f"{size(reserved * usage.block_bytes)} ({percent(reserved, usage.size_blocks)})"
    origin = origin_of(fs.superblock) or origin_of(fs.usage)
    return Citation("reserved for root", value, origin)


def _finding(fs: Filesystem, usage: Usage, reserved: int) -> Finding:
    scarce = usage.available_blocks * 100 < SCARCE_PERCENT * usage.size_blocks
    left = size(usage.available_blocks * usage.block_bytes)
    share = percent(reserved, usage.size_blocks)
    return Finding(
        message=f"{size(reserved * usage.block_bytes)} ({share}) are reserved for root and useless "
        f"to all other users, who have {left} left.",
        severity=Severity.MEDIUM if scarce else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(_cite(fs, reserved, usage), *cite_space(fs)),
        remedies=(_remedy(fs, usage),),
    )


def _remedy(fs: Filesystem, usage: Usage) -> Remedy:
    total = usage.size_blocks * usage.block_bytes
    kept = min(total * KEPT_PERCENT // 100, KEPT_BYTES) // usage.block_bytes
    steps = remedies.superblock_fields.set_reserved_blocks(fs, kept)
    as_root = "" if steps else ", as root"
    return Remedy(
        f"Reserve {size(kept * usage.block_bytes)} (tune2fs -r {kept}{as_root}).",
        Disruption.ONLINE,
        steps,
        trade_off="Root cannot clean up on a filesystem that is full to the last block, and "
        "nothing warns before: watch the space.",
    )
