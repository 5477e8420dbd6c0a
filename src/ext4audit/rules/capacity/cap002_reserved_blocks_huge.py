"""CAP002: Much space of a data filesystem is reserved for root and unavailable to other users."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, for_wording, need, origin_of
from ext4audit.facts import GIB
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field
from ext4audit.rules.shared.quantities import cite_space, percent, size

MUCH_BYTES = 50 * GIB
"""A reserve worth reclaiming regardless of free space: 5 % of 1 TiB."""
MUCH_PERCENT = 4
"""A reserve worth reclaiming if space is scarce; mke2fs's default is 5 %."""
LARGE_BYTES = 100 * GIB
"""Smaller filesystems keep mke2fs's 5 % without a finding."""
SYSTEM = ("/", "/usr", "/var", "/var/log", "/boot")
"""Mount points where root's daemons must be able to write even if users have filled the disk."""
SCARCE_PERCENT = 10
KEPT_PERCENT = 1
KEPT_BYTES = 20 * GIB
"""The reserve to keep: the allocator needs some free space to find contiguous blocks."""
KERNELS_OWN_BLOCKS = 4096
"""The most clusters that the kernel reserves for itself in addition to root's reserve
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

    How much of a filesystem of 100 GiB or more is reserved for root. Severity is medium if other
    users have less than 10 % left and the reserve is at least 4 % or more than 50 GiB, and low if
    the reserve is more than 50 GiB and space is not scarce. The default reserve of 5 % exceeds 50
    GiB only above 1000 GiB: on smaller filesystems it is reported only if space is scarce. The root
    filesystem, /usr, /var, /var/log and /boot are not checked, nor is a reserve that mount options
    assign to another user or group.

    ## Why it matters

    mke2fs reserves 5 % at any size: on 4 TB, these are 200 GB that df shows as neither used nor
    available. Databases and containers run as other users and get "No space left on device" while
    the reserve is unused.

    ## Remedy

    Reserve 1 %, at most 20 GiB. This works while the filesystem is mounted. Keep this small
    reserve: files that are written into the last free blocks become fragmented.

    ## When to ignore

    Ignore it if the reserve is kept as ballast, to be released when the disk is full.
    """
    if not need(fs.mounted_here):
        raise NotApplicable("not mounted in this mount namespace")
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
    found = _reserved_blocks(fs, usage)
    reserved = need(found)
    cited = _cite(reserved, usage, origin_of(found))
    if not _is_much(reserved, usage):
        yield cited
    elif need(fs.read_only):
        raise NotApplicable("it is mounted read-only")
    else:
        yield _finding(fs, usage, reserved, cited)


def _other_owner(fs: Filesystem) -> str | None:
    """Return the option that gives the reserve to an owner other than root, if any."""
    options = for_wording(fs.options, None)
    found = (options.find(name) for name in ("resuid", "resgid")) if options else ()
    return next((o.token for o in found if o and not o.token.endswith("=0")), None)


def _reserved_blocks(fs: Filesystem, usage: Usage) -> Evidence[int]:
    """Return the reserved blocks from the superblock, else computed from statfs's free counts.

    Once users have no blocks left, the computed value is only the unused part of the reserve. As
    a lower bound it is sufficient if it is already large.
    """
    exact = superblock_field(fs, "reserved blocks", lambda superblock: superblock.reserved_blocks)
    unavailable = usage.free_blocks - usage.available_blocks
    if isinstance(exact, Unknown) and (usage.available_blocks > 0 or _is_much(unavailable, usage)):
        return Known(max(0, unavailable - KERNELS_OWN_BLOCKS), origin_of(fs.usage))
    return exact


def _is_much(reserved: int, usage: Usage) -> bool:
    """Return whether the reserve is large by itself, or a large share while space is scarce."""
    if reserved * usage.block_bytes > MUCH_BYTES:
        return True
    return reserved * 100 >= MUCH_PERCENT * usage.size_blocks and _is_scarce(usage)


def _is_scarce(usage: Usage) -> bool:
    return usage.available_blocks * 100 < SCARCE_PERCENT * usage.size_blocks


def _cite(reserved: int, usage: Usage, origin: str) -> Citation:
    value = f"{size(reserved * usage.block_bytes)} ({percent(reserved, usage.size_blocks)})"
    return Citation("reserved for root", value, origin)


def _finding(fs: Filesystem, usage: Usage, reserved: int, cited: Citation) -> Finding:
    scarce = _is_scarce(usage)
    left = size(usage.available_blocks * usage.block_bytes)
    share = percent(reserved, usage.size_blocks)
    return Finding(
        message=f"{size(reserved * usage.block_bytes)} ({share}) are reserved for root; other "
        f"users have {left} left.",
        severity=Severity.MEDIUM if scarce else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(cited, *cite_space(fs)),
        remedies=(_remedy(fs, usage),),
        summary="space is scarce, and much of it is reserved for root"
        if scarce
        else f"more than {size(MUCH_BYTES)} are reserved for root",
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
        trade_off="With a smaller reserve, root also runs out of space sooner: monitor the free "
        "space.",
    )
