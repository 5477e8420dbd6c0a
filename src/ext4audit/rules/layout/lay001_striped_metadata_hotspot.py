"""LAY001: Block-group bitmaps are concentrated on a few members of a stripe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from ext4audit import lazily, remedies
from ext4audit.evidence import (
    Evidence,
    Known,
    Unknown,
    Why,
    for_wording,
    need,
    origin_of,
    raise_for,
)
from ext4audit.facts import KIB
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host, Profile
from ext4audit.facts.layout import EVEN, MetadataLayout, Spread, StripeGeometry
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.demands import demands_features, required_by

HOTSPOT_BELOW = 0.75
"""A limit for Jain's index; measured layouts have either less than 0.55 or more than 0.95."""
MINIMUM_GROUPS = 64
FLEX_GROUPS_PER_MEMBER = 4
WORST_SKEW = 4.0
UNSTRIPED_LEVELS = frozenset({"raid1", "linear"})
VIRTUAL_NAMES = ("vd", "xvd")
"""virtio and Xen disks (Documentation/admin-guide/devices.txt)."""
VIRTUAL_MODELS = ("QEMU", "VBOX", "VIRTUAL DISK")
"""Models of the SCSI and ATA disks of QEMU, VirtualBox, VMware and Hyper-V."""
# The arithmetic is only imported on a host with a stripe.
_effectively: Callable[[Spread], str] = lazily("layout.advice", "effectively")
_rounded: Callable[[float], str] = lazily("layout.advice", "rounded")


@rule(
    "LAY001",
    "striped-metadata-hotspot",
    severity=Severity.HIGH,
    since="0.1",
    references=(
        "https://nvartolomei.com/ext4-io-distribution-raid0",
        "mke2fs(8)",
        "https://listman.redhat.com/archives/ext3-users/2008-June/msg00042.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Which member devices of a stripe (md RAID0, RAID10, RAID4, 5 and 6, striped LVM) hold the block
    bitmaps and inode bitmaps, according to the group descriptors. Mirrors and parity count. The
    rule reports an uneven distribution: a Jain index of the members' shares (1 means equal shares)
    below 0.75, and below 0.95 with severity info. Filesystems with too few groups for the number of
    disks are not checked.

    ## Why it matters

    Every allocation writes a block bitmap or an inode bitmap, so they should be on all disks. With
    `flex_bg`, mke2fs places the bitmaps of 16 groups together every 2 GiB. This distance is a
    power-of-two multiple of the chunk size. With the defaults, the number of disks that hold
    bitmaps is therefore only the odd factor of the number of disks: 3 of 12, 1 of 8. With many
    small files, the busiest disks of a real array had 8 to 15 times the writes of the others.

    The primary descriptor table is written often as well. It is at the start of the filesystem
    and extends to one more disk per TiB (chunks of 512 KiB). No group size changes this, so it is
    shown as evidence and not reported separately.

    ## Remedy

    The number of blocks per group cannot be changed in place. Recreate the filesystem with the
    group size and `flex_bg` size that the finding computes for this array; the well-known
    `-g 32744` is right only for chunks of 512 KiB and more. Or grow the RAID0 by a disk, to an odd
    number. Stride and stripe width have no effect: with `flex_bg`, mke2fs ignores them when it
    places bitmaps, contrary to its manual page. `-E packed_meta_blocks=1` helps only as long as the
    filesystem keeps its size: resize2fs places the bitmaps of new groups as if the option were not
    set.

    ## When to ignore

    Ignore it if files are large and rarely created or deleted, and on fast SSDs (severity is low
    for non-rotational members for this reason).
    """
    if fs.layout is None:
        raise NotApplicable("it is not on a stripe")
    layout, superblock = need(fs.layout, fs.superblock)
    citations = _citations(fs, layout, _judged_stripe(layout))
    if layout.bitmaps.achieved >= EVEN:
        yield from citations
        raise_for(layout.doubts)
        return
    media = media_of(fs.stack, layout)
    severity, confidence = _severity(layout, media)
    found = Finding(
        message=f"{_effectively(layout.bitmaps)} the bitmaps: the busiest disk gets "
        f"{_rounded(layout.skew)} times the average number of bitmap writes.",
        severity=severity,
        confidence=Confidence.LIKELY if layout.doubts else confidence,
        citations=(*citations, media_citation(media)),
        remedies=tuple(remedies.mkfs.even_out_bitmaps(fs.device, layout, superblock)),
        summary="bitmaps are spread unevenly over the members of the stripe"
        if severity is Severity.INFO
        else "bitmaps are concentrated on a few members of the stripe",
    )
    lacking = {f: p for f, p in demands_features(fs, host).items() if f not in superblock.features}
    yield _with_demands(found, lacking) if lacking else found
    unseen = () if confidence is Confidence.CONFIRMED else media
    raise_for((*layout.doubts, *_resolvable(unseen)))


def _with_demands(finding: Finding, lacking: Mapping[str, Profile]) -> Finding:
    """Replace mkfs remedies, which omit features that a profile requires, with general advice."""
    demands = "; ".join(f"{f}, {required_by(p)}" for f, p in lacking.items())
    advice = Remedy(
        f"Recreate it with {demands}: `ext4audit plan` computes the group size.",
        Disruption.RECREATE,
        destructive=True,
    )
    others = (each for each in finding.remedies if each.disruption is not Disruption.RECREATE)
    return finding._replace(remedies=(advice, *others))


def media_of(stack: Evidence[BlockDevice], layout: MetadataLayout) -> tuple[Evidence[bool], ...]:
    """Return whether each member is rotational; the stack's Unknown if the stack is unknown.

    Columns inferred from I/O sizes are not devices: each gets the value that all disks below have
    in common. If the disks differ, their values are returned instead.
    """
    if isinstance(stack, Unknown):
        return (stack,)
    devices = {device.name: device for device in stack.value.walk()}
    members = [devices[each.name] for each in layout.members if each.name in devices]
    if len(members) == len(layout.members):
        return tuple(_rotates(member) for member in members)
    # The disks below an array whose members are not visible are unknown.
    disks = tuple(
        disk.below if isinstance(disk.below, Unknown) else _rotates(disk)
        for disk in stack.value.leaves()
    )
    alike = len({for_wording(each, None) for each in disks}) == 1
    return disks[:1] * len(layout.members) if alike and isinstance(disks[0], Known) else disks


def _rotates(device: BlockDevice) -> Evidence[bool]:
    rotational = device.queue.rotational
    # A virtual disk reports rotational=1 unless configured otherwise, even virtio on NVMe.
    if isinstance(rotational, Known) and rotational.value and _is_virtual(device):
        what = f"rotational of {device.name}"
        return Unknown(what, Why.UNSUPPORTED, "a virtual disk does not report its medium")
    return rotational


def _is_virtual(device: BlockDevice) -> bool:
    model = (device.model or "").upper()
    return device.name.startswith(VIRTUAL_NAMES) or any(name in model for name in VIRTUAL_MODELS)


def media_citation(media: tuple[Evidence[bool], ...]) -> Citation:
    """Cite how many members are rotational."""
    words = {True: "yes", False: "no", None: "unknown"}
    answers = [words[for_wording(each, None)] for each in media]
    value = ", ".join(f"{each}: {answers.count(each)}" for each in dict.fromkeys(answers))
    origins = [each.origin for each in media if isinstance(each, Known)]
    return Citation("rotational members", value, origins[0] if origins else "/sys")


def histogram(names: tuple[str, ...], loads: tuple[int, ...]) -> str:
    """Return the loads as text in slot order, joining ranges of names with the same load.

    Slots need not be in name order: vdc, vda, vdd, vdb is not a range from vdc to vdb.
    """
    by_name = sorted(names, key=lambda name: (len(name), name))

    def range_of(place: tuple[int, tuple[str, int]]) -> tuple[int, int]:
        slot, (name, load) = place
        return load, by_name.index(name) - slot

    members = enumerate(zip(names, loads, strict=False))
    ranges = [
        (load, [name for _, (name, _) in equal]) for (load, _), equal in groupby(members, range_of)
    ]
    return ", ".join(
        f"{names[0]}{f' to {names[-1]}' if len(names) > 1 else ''}: {load}"
        for load, names in ranges
    )


def _resolvable(media: Sequence[Evidence[bool]]) -> Iterator[Unknown]:
    """Yield the unknowns that another scan can resolve.

    The medium of a virtual disk is never known. It only lowers the confidence: otherwise no audit
    of a virtual machine would be complete.
    """
    for each in media:
        if isinstance(each, Unknown) and each.why is not Why.UNSUPPORTED:
            yield each


def _judged_stripe(layout: MetadataLayout) -> StripeGeometry:
    """Return the stripe; raises NotApplicable if there is none or it has too few groups."""
    geometry = layout.geometry
    if geometry is None or geometry.level in UNSTRIPED_LEVELS or len(layout.members) == 1:
        raise NotApplicable("it is not on a stripe")
    flex_groups = -(-layout.groups // layout.flex_bg_groups)
    if layout.groups < MINIMUM_GROUPS:
        raise NotApplicable(f"it has only {layout.groups} block groups")
    if flex_groups < FLEX_GROUPS_PER_MEMBER * len(layout.members):
        raise NotApplicable(
            f"it has only {flex_groups} flex groups for {len(layout.members)} disks"
        )
    return geometry


def _severity(
    layout: MetadataLayout, media: tuple[Evidence[bool], ...]
) -> tuple[Severity, Confidence]:
    known = [each.value for each in media if isinstance(each, Known)]
    if layout.bitmaps.achieved >= HOTSPOT_BELOW:
        return Severity.INFO, Confidence.CONFIRMED
    if any(known):
        # Rounded as printed: four disks with all bitmaps on one of them give 3.99.
        worst = round(layout.skew, 1) >= WORST_SKEW
        return Severity.HIGH if worst else Severity.MEDIUM, Confidence.CONFIRMED
    if len(known) < len(media):
        return Severity.MEDIUM, Confidence.LIKELY
    return Severity.LOW, Confidence.CONFIRMED


def _citations(
    fs: Filesystem, layout: MetadataLayout, geometry: StripeGeometry
) -> tuple[Citation, ...]:
    """Cite the stripe, the groups, and the location of their metadata, each with its origin."""
    table = origin_of(fs.layout) if fs.layout else ""
    stripe = (
        f"{geometry.level} {geometry.device}, {len(geometry.members)} members, "
        f"chunk {geometry.chunk_bytes // KIB} KiB, "
        f"filesystem starts at byte {geometry.offset_bytes}"
    )
    groups = (
        f"{layout.groups} groups of {layout.blocks_per_group} blocks of {layout.block_bytes} "
        f"bytes, flex_bg size {layout.flex_bg_groups}"
    )
    names = tuple(member.name for member in layout.judged)
    churn, even = layout.churn, 1 / len(layout.churn.loads)
    hottest = f"{churn.hottest_share:.0%} of the writes (even: {even:.0%})"
    return (
        Citation("stripe", stripe, origin_of(fs.stack)),
        Citation("block groups", groups, origin_of(fs.superblock), detail=True),
        Citation("bitmaps per member", histogram(names, layout.bitmaps.loads), table),
        Citation("spread of bitmaps", _numbers(layout.bitmaps), "computed", detail=True),
        Citation("spread of the descriptor table", _numbers(layout.descriptors), "computed", True),
        Citation("busiest member under small-file churn, modelled", hottest, "computed"),
    )


def _numbers(spread: Spread) -> str:
    return (
        f"skew {spread.skew:.2f}, effective members {spread.effective_members:.2f} of "
        f"{len(spread.loads)}, evenness {spread.evenness:.2f}"
    )
