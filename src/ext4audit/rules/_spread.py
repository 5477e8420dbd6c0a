"""What spreads bitmaps over a stripe: the mkfs line, or the array's growth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.layout.advice import EVEN, Advice, advise, evenness, shape_of
from ext4audit.rules._shell import quote

MOST_NEW_MEMBERS = 3


def remedies(device: str, layout: MetadataLayout, superblock: Superblock) -> Iterator[Remedy]:
    """Yield what evens the bitmaps of the filesystem on `device` out."""
    shape = shape_of(layout)
    advice = advise(shape) if shape else None
    if advice and not _is_as_advised(layout, superblock, advice):
        yield _recreate(device, layout, superblock, advice)
    yield from _grow(layout)


def _is_as_advised(layout: MetadataLayout, superblock: Superblock, advice: Advice) -> bool:
    """Whether recreating would change nothing. A stride moves bitmaps only without flex_bg."""
    same_groups = _blocks_per_group(layout, advice) == layout.blocks_per_group
    same_packing = advice.flex_bg_groups == layout.flex_bg_groups
    return (
        same_groups and same_packing and (advice.flex_bg_groups > 1 or not superblock.stride_blocks)
    )


def _blocks_per_group(layout: MetadataLayout, advice: Advice) -> int:
    return advice.blocks_per_group_option * layout.cluster_blocks


def _recreate(
    device: str, layout: MetadataLayout, superblock: Superblock, advice: Advice
) -> Remedy:
    word = quote(device)
    pattern = f"^Blocks per group: +{_blocks_per_group(layout, advice)}$"
    steps = (
        Step(Phase.PERSISTENT, f"{_mkfs(layout, superblock, advice)} {word}"),
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


def _mkfs(layout: MetadataLayout, superblock: Superblock, advice: Advice) -> str:
    chunk_blocks = layout.geometry.chunk_bytes // layout.block_bytes
    # Without flex_bg packing stride moves the bitmaps: -G 1 -g 32760 on 4 disks with 32 KiB
    # chunks served 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
    stride = chunk_blocks if advice.flex_bg_groups > 1 else 0
    words = [
        "mkfs.ext4",
        f"-b {layout.block_bytes}",
        f"-g {advice.blocks_per_group_option}",
        f"-G {advice.flex_bg_groups}",
        *_kept(layout, superblock),
        f"-E stride={stride},stripe_width={chunk_blocks * len(layout.members)}",
    ]
    return " ".join(words)


def _kept(layout: MetadataLayout, superblock: Superblock) -> Iterator[str]:
    """Yield the options of the present filesystem that decide where metadata lies."""
    if layout.cluster_blocks > 1:
        yield f"-O bigalloc -C {layout.cluster_blocks * layout.block_bytes}"
    if "meta_bg" in superblock.features:
        yield "-O meta_bg,^resize_inode"
    if superblock.inodes_per_group:
        group_bytes = layout.blocks_per_group * layout.block_bytes
        yield f"-i {group_bytes // superblock.inodes_per_group}"


def _grow(layout: MetadataLayout) -> Iterator[Remedy]:
    """Offer the next number of members that makes the present layout even, if it is near."""
    shape = shape_of(layout)
    if shape is None or layout.geometry.level != "raid0":
        return
    option = layout.blocks_per_group // layout.cluster_blocks
    now = len(layout.members)
    for members in range(now + 1, now + MOST_NEW_MEMBERS + 1):
        wider = replace(shape, members=members)
        if evenness(wider, option, layout.flex_bg_groups) >= EVEN:
            yield Remedy(
                summary=f"Grow the array from {now} to {members} members with mdadm, online.",
                disruption=Disruption.ONLINE,
                trade_off="It rewrites the whole array: back up first. The superblock's stripe "
                f"width must then become {members * shape.chunk_blocks} blocks.",
            )
            return
