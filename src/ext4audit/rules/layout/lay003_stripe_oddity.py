"""LAY003: ext4 aligns files to a stripe size that no array below it has."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, need, raise_for
from ext4audit.facts.devices import IMAGES, BlockDevice
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.layout import hidden_levels, may_stripe
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_option, in_brief
from ext4audit.rules.shared.quantities import (
    block_bytes,
    block_bytes_of,
    cite_stripe,
    group_blocks,
    hides_stripe,
    recommended_stripe,
    stripe_in_force,
    stripe_off,
)

LARGEST_TRANSFER_BYTES = 65535 * 512
"""The largest transfer of a bridge that counts sectors in 16 bits: 33553920."""

SMALLEST_CHUNK_BYTES = 64 << 10
"""The stripe of a controller is a multiple of this."""


@rule(
    "LAY003",
    "stripe-oddity",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://docs.kernel.org/admin-guide/ext4.html",
        "fs/ext4/super.c: ext4_get_stripe_size()",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    The stripe in force on filesystems that are not on a striped array (LAY002 checks those). On a
    single disk and on mirrors, the rule reports any stripe. It accepts a stripe of exactly the
    optimal I/O size that the device reports, if this size is a multiple of 64 KiB or the physical
    block size, as on a ZFS volume. On any device, the rule reports a stripe that is 65535 sectors
    (8191 blocks of 4 KiB: the largest transfer of some devices, not a stripe), larger than a block
    group, or not a multiple of the stride. Stripe 0 means no stripe and is right for a single disk.

    ## Why it matters

    The allocator searches for free space at multiples of the stripe. A value that matches no array
    has no benefit, and large files start at offsets that fit neither the pages of a flash drive nor
    the chunks of an array. On Linux 6.5 to 6.7, any stripe can make the writeback thread use 100 %
    of a CPU (KRN002). Severity is medium on these kernels, and low on others.

    ## Remedy

    Set stride and stripe width in the superblock to 0 and remount with `stripe=0`; both work while
    the filesystem is mounted. `stripe=0` in fstab has no effect, because the superblock's value
    takes precedence at mount.

    ## When to ignore

    Ignore it if a hardware controller, which does not report its geometry, has stripes of this
    size.
    """
    now = stripe_in_force(fs, host)
    if now == 0:
        yield from cite_option(fs, "stripe")
        return
    stack = need(fs.stack)
    if not hides_stripe(stack) and recommended_stripe(stack) is not None:
        raise NotApplicable("LAY002 checks it against the stripe of the device")
    superblock, _ = need(fs.superblock, block_bytes(fs))
    odd = next(_oddities(now, superblock), None)
    odd = odd or _unstriped(stack, now * block_bytes_of(superblock))
    if odd:
        yield _finding(fs, host, f"A stripe of {now} blocks is in force, {odd}")
        need(exposure("KRN002", host.kernel))
    else:
        yield from in_brief(cite_stripe(fs))


def _oddities(now: int, superblock: Superblock) -> Iterator[str]:
    """Yield the reasons why no array can have such a stripe."""
    stride, width = superblock.stride_blocks, superblock.stripe_width_blocks
    unit, most = block_bytes_of(superblock), group_blocks(superblock)
    if now == LARGEST_TRANSFER_BYTES // unit:
        yield "which is the largest transfer of a device (65535 sectors), not a stripe"
    if now > most:
        yield f"which is larger than a block group ({most} blocks)"
    if now == width and stride > 1 and width % stride:
        yield f"which is not a multiple of the stride ({stride} blocks)"


def _unstriped(stack: BlockDevice, stripe_bytes: int) -> str | None:
    """Return the reason why a device has no stripe, None if it may have one.

    The device that an image will be written to is not known. A controller may report its stripe
    only as the optimal I/O size, which mke2fs then uses as the stripe width. A ZFS volume reports
    its physical block size there, because a smaller write must read and write the whole block
    (OpenZFS, zvol_os.c: blk_queue_io_opt()).
    """
    if stack.kind in IMAGES:
        return None
    if may_stripe(stack):
        raise_for(hidden_levels(stack))
        return None
    recommended_stripe(stack)  # raises Undetermined if I/O sizes that hint at a stripe are unknown
    optimal = need(stack.queue.optimal_io_bytes)
    if optimal == stripe_bytes:
        is_chunk = optimal % SMALLEST_CHUNK_BYTES == 0
        if is_chunk or optimal == need(stack.queue.physical_block_bytes):
            return None
    return f"but {stack.name} is not on a striped array"


def _finding(fs: Filesystem, host: Host, what: str) -> Finding:
    """Return the finding; severity is higher on kernels where any stripe may keep a CPU busy."""
    costs_cpu = _costs_cpu(host)
    then = "and on this kernel any stripe can make writeback use 100 % of a CPU (KRN002)"
    gains = "aligning large files to it has no benefit"
    return Finding(
        message=f"{what}: {f'{gains}, {then}' if costs_cpu else gains}.",
        severity=Severity.MEDIUM if costs_cpu else Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=in_brief(cite_stripe(fs)),
        remedies=(stripe_off(fs, host),),
        summary="ext4 aligns files to a stripe size that no array has",
    )


def _costs_cpu(host: Host) -> bool:
    """Return whether any stripe is likely to keep a CPU busy on the host's kernel."""
    found = exposure("KRN002", host.kernel)
    if not isinstance(found, Known) or not found.value.affected:
        return False
    return Severity(found.value.severity).at_least(Severity.MEDIUM)
