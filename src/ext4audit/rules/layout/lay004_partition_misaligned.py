"""LAY004: A partition is not aligned to the physical blocks or stripes of its device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from ext4audit.evidence import Known, Undetermined, Unknown, Why, need, raise_for
from ext4audit.facts import MIB, whole_number
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import recommended_stripe

KPARTX = re.compile("part[0-9]+-")
"""The prefix of the UUID of a partition of a multipath device: "part1-mpath-3600…" (kpartx(8))."""


@rule(
    "LAY004",
    "partition-misaligned",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-block",
        "https://raid.wiki.kernel.org/index.php/RAID_setup",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether the start of every partition below the filesystem, including the members of an array and
    the partitions of multipath devices (kpartx), is a multiple of the device's physical block size,
    and of its stripe size if it reports one. If the kernel reports an alignment offset, the rule
    uses that value. An optimal I/O size that cannot be a stripe (33553920 bytes of USB bridges, one
    block of NVMe drives) is ignored.

    ## Why it matters

    Most disks have 4096-byte physical blocks but emulate 512-byte sectors. In a partition that
    starts at sector 63, each 4096-byte block of ext4 overlaps two physical blocks, and the disk
    must read both before it writes them. In a partition that starts inside a stripe, a write that
    ext4 aligns to a full stripe covers parts of two.

    ## Remedy

    The start of a partition cannot be changed without moving all data. Recreate the partition at a
    multiple of 1 MiB (and of the stripe), and restore the data; or leave it until the disk is
    replaced.

    ## When to ignore

    Ignore it if the write load is light. A partition that starts inside a stripe (low) also matters
    little if files are small, and on most RAID0 arrays.
    """
    devices = need(fs.stack).walk()
    unknowns: list[Unknown] = []
    judged = False
    for device in devices:
        unknowns += [device.below] if isinstance(device.below, Unknown) else []
        if _is_partition(device):
            judged = True
            try:
                yield from _judge(_with_start(device))
            except Undetermined as met:
                unknowns += met.unknowns
    raise_for(unknowns)
    if not judged:
        raise NotApplicable("it is not on a partition")


def _is_partition(device: BlockDevice) -> bool:
    is_mapped = device.dm is not None and KPARTX.match(device.dm.uuid) is not None
    return is_mapped or device.kind == "partition"


def _with_start(partition: BlockDevice) -> BlockDevice:
    """Return the partition, with the start in its table if kpartx maps it; raises Undetermined."""
    if partition.dm is None:
        return partition
    segments = need(partition.dm.table)
    words = [word for each in segments[:1] if each.target == "linear" for word in each.arguments]
    start = whole_number(words[-1]) if words else None
    return replace(partition, name=partition.dm.name or partition.name, start_sectors=start)


def _judge(partition: BlockDevice) -> RuleOutput:
    """Judge one partition; raises Undetermined."""
    if partition.start_sectors is None:
        gap = Unknown(f"start of {partition.name}", Why.ABSENT)
        raise Undetermined((partition.start_gap or gap,))
    start = partition.start_sectors * SECTOR_BYTES
    cited = tuple(_cite(partition))
    if partition.image is not None and start % MIB == 0:
        # Only an image file was audited: the queue does not describe the image's disk.
        yield from cited
        return
    physical = need(partition.queue.physical_block_bytes) or SECTOR_BYTES
    stripe = recommended_stripe(partition)
    aligned = lcm(MIB, physical, stripe.width_bytes if stripe else 1)
    if _starts_inside_block(partition, start, physical):
        inside = f"a physical block of {physical} bytes"
        yield _finding(partition, Severity.MEDIUM, inside, cited, aligned)
    elif stripe and start % stripe.width_bytes:
        inside = f"a stripe of {stripe.width_bytes} bytes"
        yield _finding(partition, Severity.LOW, inside, cited, aligned)
    else:
        yield from cited


def _starts_inside_block(partition: BlockDevice, start_bytes: int, physical_bytes: int) -> bool:
    """Return whether the partition starts inside a physical block.

    The kernel's alignment_offset accounts for disks with a shifted first block; -1 means no value.
    """
    reported = partition.alignment_offset_bytes
    offset = -1 if reported is None else need(reported)
    return (start_bytes if offset < 0 else offset) % physical_bytes != 0


def _cite(partition: BlockDevice) -> Iterator[Citation]:
    """Cite the start of the partition and the sizes that the device reports."""
    place = f"/sys/class/block/{partition.name}"
    table = partition.dm.table if partition.dm else None
    origin = table.origin if isinstance(table, Known) else place
    yield Citation(f"start of {partition.name}", f"sector {partition.start_sectors}", origin)
    offset = partition.alignment_offset_bytes
    if isinstance(offset, Known):
        yield Citation("alignment_offset", f"{offset.value}", f"{place}/alignment_offset")
    limits = {
        "physical block": partition.queue.physical_block_bytes,
        "optimal I/O size": partition.queue.optimal_io_bytes,
    }
    for label, limit in limits.items():
        if isinstance(limit, Known):
            yield Citation(label, f"{limit.value} bytes", limit.origin)


def _finding(
    partition: BlockDevice,
    severity: Severity,
    inside: str,
    citations: tuple[Citation, ...],
    aligned: int,
) -> Finding:
    """Return the finding; an aligned start is a multiple of `aligned` bytes."""
    costs = {
        Severity.MEDIUM: "for each block of ext4, the disk reads and rewrites two physical blocks",
        Severity.LOW: "writes that ext4 aligns to full stripes cover parts of two",
    }
    target = {Severity.MEDIUM: "physical blocks", Severity.LOW: "stripes"}[severity]
    return Finding(
        message=f"{partition.name} starts at sector {partition.start_sectors}, inside {inside}: "
        f"{costs[severity]}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=citations,
        summary=f"a partition is not aligned to the {target} of its device",
        remedies=(
            Remedy(
                "Back up, recreate the partition with a start sector that is a multiple of "
                f"{aligned // SECTOR_BYTES} (512-byte sectors), create the filesystem "
                "and restore. This destroys all data on the partition.",
                Disruption.RECREATE,
                destructive=True,
            ),
        ),
    )
