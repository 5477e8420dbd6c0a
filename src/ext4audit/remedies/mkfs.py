"""Remedies at creation time: mkfs parameters that spread bitmaps, and features to leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.facts.host import Filesystem
from ext4audit.facts.layout import MetadataLayout, MkfsAdvice, StripeGeometry
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.layout.advice import advice_for, bytes_per_inode, described, growth_for
from ext4audit.remedies.offline import checked, unmounted_steps, why_by_hand
from ext4audit.remedies.shell import quote

REMOVABLE = frozenset({"metadata_csum_seed", "orphan_file", "fast_commit"})
"""Features that tune2fs (1.47) takes out of an unmounted filesystem and puts back."""


def without_features(fs: Filesystem, features: Sequence[str], *, planned: bool) -> Remedy:
    """Return how the filesystem loses features: a word of mke2fs in a plan, else tune2fs."""
    cleared = ",".join(f"^{feature}" for feature in features)
    if planned:
        return Remedy(f"Make it with -O {cleared}.", Disruption.ONLINE)
    if not REMOVABLE.issuperset(features):
        return Remedy(
            f"Make it anew with -O {cleared}: tune2fs cannot take all of them out.",
            Disruption.RECREATE,
            destructive=True,
        )
    steps = _steps(fs, features, cleared)
    where = "" if steps else f", {why_by_hand(fs)}"
    return Remedy(f"Take {', '.join(features)} out{where}.", Disruption.UNMOUNT, steps)


def _steps(fs: Filesystem, features: Sequence[str], cleared: str) -> tuple[Step, ...]:
    device = quote(fs.device)
    there = f"tune2fs -l {device} | grep -E '^Filesystem features:'"
    return unmounted_steps(
        fs,
        (checked(fs), f"tune2fs -O {cleared} {device}"),
        tuple(f"{there} && ! {there} | grep -qw {feature}" for feature in features),
        (checked(fs), f"tune2fs -O {','.join(features)} {device}"),
    )


PARITY_MEMBERS = {"raid4": 1, "raid5": 1, "raid6": 2}
NEAR_COPIES_MASK = 0xFF
NEAR_2 = 0x102
"""mdadm's default for a RAID10: two copies near each other, one far (md(4))."""


def remedies(device: str, layout: MetadataLayout, superblock: Superblock) -> Iterator[Remedy]:
    """Yield what evens the bitmaps of the filesystem on `device` out."""
    advice = advice_for(layout, superblock)
    geometry = layout.geometry
    if geometry is None:
        return
    if advice and not _is_as_advised(layout, superblock, advice):
        yield _recreate(device, layout, geometry, superblock, advice)
    yield from _grow(layout, geometry, superblock)


def _is_as_advised(layout: MetadataLayout, superblock: Superblock, advice: MkfsAdvice) -> bool:
    """Whether recreating would change nothing. A stride moves bitmaps only without flex_bg."""
    same_groups = _blocks_per_group(layout, advice) == layout.blocks_per_group
    same_packing = advice.flex_bg_groups == layout.flex_bg_groups
    return (
        same_groups and same_packing and (advice.flex_bg_groups > 1 or not superblock.stride_blocks)
    )


def _blocks_per_group(layout: MetadataLayout, advice: MkfsAdvice) -> int:
    return advice.blocks_per_group_option * layout.cluster_blocks


def _recreate(
    device: str,
    layout: MetadataLayout,
    geometry: StripeGeometry,
    superblock: Superblock,
    advice: MkfsAdvice,
) -> Remedy:
    word = quote(device)
    pattern = f"^Blocks per group: +{_blocks_per_group(layout, advice)}$"
    steps = (
        Step(Phase.PERSISTENT, f"{_mkfs(layout, geometry, superblock, advice)} {word}"),
        Step(Phase.VERIFY, f"dumpe2fs -h {word} 2>/dev/null | grep -Eq '{pattern}'"),
    )
    return Remedy(
        summary="Back up, unmount, recreate with groups that fit the stripe, restore: "
        f"mkfs DESTROYS all data on {device}.",
        disruption=Disruption.RECREATE,
        steps=steps if word else (),
        destructive=True,
        trade_off="Group starts no longer lie on chunk limits, and few people run such layouts. "
        "With very many inodes mke2fs lowers the group size silently, so verify it. Label, UUID, "
        "reserved blocks and all features not named here are yours to carry over. Nothing "
        "smaller helps: stride and stripe width serve the allocator and move no bitmap, and "
        "resize2fs keeps the group size.",
    )


def _mkfs(
    layout: MetadataLayout, geometry: StripeGeometry, superblock: Superblock, advice: MkfsAdvice
) -> str:
    chunk_blocks = geometry.chunk_bytes // layout.block_bytes
    # Without flex_bg packing stride moves the bitmaps: -G 1 -g 32760 on 4 disks with 32 KiB
    # chunks served 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
    stride = chunk_blocks if advice.flex_bg_groups > 1 else 0
    words = [
        "mkfs.ext4",
        f"-b {layout.block_bytes}",
        f"-g {advice.blocks_per_group_option}",
        f"-G {advice.flex_bg_groups}",
        *_kept(layout, superblock),
        f"-E stride={stride},stripe_width={chunk_blocks * _data_columns(geometry)}",
    ]
    return " ".join(words)


def _kept(layout: MetadataLayout, superblock: Superblock) -> Iterator[str]:
    """Yield the options of the present filesystem that decide where metadata lies."""
    if layout.cluster_blocks > 1:
        yield f"-O bigalloc -C {layout.cluster_blocks * layout.block_bytes}"
    if "meta_bg" in superblock.features:
        yield "-O meta_bg,^resize_inode"
    ratio = bytes_per_inode(described(layout, superblock))
    if ratio:
        yield f"-i {ratio}"


def _data_columns(geometry: StripeGeometry) -> int:
    """Return how many members of a stripe hold data of their own: mke2fs(8), -E stripe_width."""
    members = len(geometry.members)
    if geometry.level == "raid10":
        copies = (NEAR_2 if geometry.layout is None else geometry.layout) & NEAR_COPIES_MASK
        return members // copies if copies and members % copies == 0 else members
    return members - PARITY_MEMBERS.get(geometry.level, 0)


def _grow(
    layout: MetadataLayout, geometry: StripeGeometry, superblock: Superblock
) -> Iterator[Remedy]:
    """Offer the next number of members that makes the present layout even, if it is near."""
    grown = growth_for(layout, superblock)
    if grown is None:
        return
    now, width = len(geometry.members), grown.members * geometry.chunk_bytes // layout.block_bytes
    yield Remedy(
        summary=f"Grow the array from {now} to {grown.members} members with mdadm, online.",
        disruption=Disruption.ONLINE,
        trade_off="It rewrites the whole array: back up first. The superblock's stripe "
        f"width must then become {width} blocks.",
    )
