"""LAY002: ext4 aligns files to a stripe size other than that of the array."""

from math import lcm
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, need, origin_of, raise_for
from ext4audit.facts import KIB
from ext4audit.facts.devices import IMAGES, BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.layout import hidden_levels, may_stripe
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import (
    RecommendedStripe,
    block_bytes,
    cite_raid_hints,
    hides_stripe,
    largest_stripe_blocks,
    recommended_stripe,
    stripe_in_force,
    stripes_cost_cpu,
)

PARITY = ("raid4", "raid5", "raid6")
LEAST = 2
"""The smallest stripe in blocks: ext4 ignores a stripe of one block."""
NOT_YET = (
    "Do not set a stripe on Linux 6.1 to 6.7: there, any stripe is reported to make writeback use "
    "100 % of a CPU (KRN002). On Linux 6.8 and later, store the stripe of the array"
)


@rule(
    "LAY002",
    "stride-stripe-mismatch",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/mke2fs.8.html",
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://bugzilla.kernel.org/show_bug.cgi?id=217965",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the stripe size that ext4 uses (`stripe=` in force, from the superblock's RAID stripe
    width or stride, or from a mount option) matches the chunk and stripe size that the device
    reports as its minimum and optimal I/O size. md, striped LVM and some controllers report them. A
    multiple of the array's stripe is also correct. If no array is visible and the superblock sets
    no stripe, nothing is checked.

    ## Why it matters

    The allocator starts large allocations at multiples of the stripe. On RAID5 and RAID6, a write
    that does not cover a full stripe of the array must first read old data and parity. On RAID0
    and RAID10, a wrong stripe only distributes large files less evenly. mke2fs sets the right
    values; they become wrong when an array is grown, or when a filesystem is copied to another
    array.

    ## Remedy

    Set stride and stripe width with tune2fs, which works while the filesystem is mounted, and
    remount with the new stripe. Both affect new allocations only; existing files are not moved.
    On Linux 6.1 to 6.7, no command is printed that turns on a stripe (see KRN002).

    ## When to ignore

    Ignore it if files are small, or written once and read often, and if the array will be grown
    soon. A stripe that is turned off has at most severity info.
    """
    stack = need(fs.stack)
    stripe = None if _is_unseen(fs, stack, host) else recommended_stripe(stack)
    if stripe is None or _reshapes(stack):
        raise NotApplicable("no stripe of a known size is visible below it")
    case = Case(fs, stack, stripe, need(block_bytes(fs)))
    if not LEAST <= case.usable_width <= largest_stripe_blocks(fs):
        raise NotApplicable(f"ext4 cannot use a stripe of {stripe.width_bytes} bytes")
    now = stripe_in_force(fs, host)
    if now == 0:
        yield from _unset(case, host)
    elif now % case.width == 0 or _is_stride_of_ssds(case, now):
        yield from case.cite(now)
    else:
        summary = "ext4 aligns files to a stripe size other than the array's"
        severity = _severity(stack)
        yield case.finding(host, now, severity, _sentence(case, now), summary)
        if severity is Severity.LOW:
            raise_for(hidden_levels(stack))
        need(fs.superblock)


def _is_unseen(fs: Filesystem, stack: BlockDevice, host: Host) -> bool:
    """Return whether no array is visible and nothing suggests one: an image, or no stripe in force.

    A stripe in force may be the stripe of a controller, whose I/O sizes would show it.
    """
    return hides_stripe(stack) and (stack.kind in IMAGES or stripe_in_force(fs, host) == 0)


class Case(NamedTuple):
    """A filesystem on a stripe; `stride` and `width` are the array's, in filesystem blocks."""

    fs: Filesystem
    stack: BlockDevice
    stripe: RecommendedStripe
    block_bytes: int

    @property
    def stride(self) -> int:
        """Blocks in a chunk; 0 if the chunk is not a multiple of the block size."""
        return _whole(self.stripe.chunk_bytes, self.block_bytes)

    @property
    def width(self) -> int:
        """Blocks in a full stripe of data; 0 if it is not a multiple of the block size."""
        return _whole(self.stripe.width_bytes, self.block_bytes)

    @property
    def usable_width(self) -> int:
        """The least multiple of the width in clusters: the kernel turns off others (6.18)."""
        superblock = for_wording(self.fs.superblock, None)
        return lcm(self.width, (superblock.cluster_blocks if superblock else None) or 1)

    def cite(self, now: int) -> tuple[Citation, ...]:
        """Cite the stripe of the device, the superblock's RAID hints, and the stripe in force."""
        limits = self.stack.queue
        chunk, width = limits.minimum_io_bytes, limits.optimal_io_bytes
        return (
            Citation("chunk", f"{self.stripe.chunk_bytes // KIB} KiB", origin_of(chunk)),
            Citation("full stripe", f"{self.stripe.width_bytes // KIB} KiB", origin_of(width)),
            *cite_raid_hints(self.fs),
            Citation("stripe in force", f"{now} blocks", origin_of(self.fs.options) or "unknown"),
        )

    def finding(
        self, host: Host, now: int, severity: Severity, sentence: str, summary: str
    ) -> Finding:
        """Return the finding, with confidence likely if the array was not seen."""
        seen = may_stripe(self.stack)
        return Finding(
            message=sentence,
            severity=severity,
            confidence=Confidence.CONFIRMED if seen else Confidence.LIKELY,
            citations=self.cite(now),
            remedies=(_remedy(self, host),),
            summary=summary,
        )


def _unset(case: Case, host: Host) -> RuleOutput:
    """Judge a filesystem without a stripe, which is right on kernels that KRN002 affects."""
    if need(stripes_cost_cpu(host)):
        yield Citation("kernel", need(host.kernel).release, "affected by KRN002 with a stripe")
        yield from case.cite(0)
        return
    if not may_stripe(case.stack):
        raise NotApplicable("no array is visible below it, and the superblock sets no stripe")
    name, kib = case.stack.name, case.stripe.width_bytes // KIB
    sentence = f"ext4 does not align files to stripes, but {name} has stripes of {kib} KiB."
    summary = "ext4 does not align files to the array's stripes"
    yield case.finding(host, 0, Severity.INFO, sentence, summary)


def _is_stride_of_ssds(case: Case, now: int) -> bool:
    """Return whether only the stride is set, as mke2fs 1.47.3 does on non-rotational devices."""
    if now != case.stride or need(case.fs.superblock).stripe_width_blocks:
        return False
    return not need(case.stack.queue.rotational)


def _sentence(case: Case, now: int) -> str:
    """Return the message, which says what a wrong stripe costs on this array."""
    costs = (
        "more writes cover only part of a stripe and must read and rewrite parity"
        if _severity(case.stack) is Severity.MEDIUM
        else "large files are distributed less evenly over its disks"
    )
    ours = now * case.block_bytes // KIB
    kib = case.stripe.width_bytes // KIB
    return (
        f"ext4 aligns files to {ours} KiB, but the stripes of {case.stack.name} have {kib} KiB: "
        f"{costs}."
    )


def _severity(stack: BlockDevice) -> Severity:
    """Grade by the RAID levels below: with parity, a partial stripe costs a read-modify-write."""
    levels = [device.md.value.level for device in stack.walk() if isinstance(device.md, Known)]
    levels += [
        segment.arguments[0]
        for device in stack.walk()
        if device.dm and isinstance(device.dm.table, Known)
        for segment in device.dm.table.value
        if segment.target == "raid" and segment.arguments
    ]
    parity = any(level.startswith(PARITY) for level in levels)
    return Severity.MEDIUM if parity else Severity.LOW


def _reshapes(stack: BlockDevice) -> bool:
    """Return whether an array below is being reshaped."""
    arrays = [device.md.value for device in stack.walk() if isinstance(device.md, Known)]
    return any(array.reshape_position is not None for array in arrays)


def _remedy(case: Case, host: Host) -> Remedy:
    """Return the steps, or only advice on kernels where a stripe may keep a CPU busy."""
    hints = f"stride={case.stride},stripe_width={case.usable_width}"
    costs_cpu, superblock = stripes_cost_cpu(host), case.fs.superblock
    if not isinstance(costs_cpu, Known) or costs_cpu.value:
        return Remedy(f"{NOT_YET} (tune2fs -E {hints}).", Disruption.ONLINE)
    known = for_wording(superblock, None)
    where = remedies.remount.elsewhere(case.fs)
    return Remedy(
        f"Set the stripe of the array in the superblock and remount ({hints}){where}.",
        Disruption.REMOUNT if case.fs.alive else Disruption.ONLINE,
        remedies.superblock_fields.set_stripe(case.fs, known, case.stride, case.usable_width)
        if known
        else (),
        trade_off="Only new allocations are affected; existing files are not moved.",
    )


def _whole(size_bytes: int, unit_bytes: int) -> int:
    count, rest = divmod(size_bytes, unit_bytes)
    return 0 if rest else count
