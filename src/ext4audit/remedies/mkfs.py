"""Recreate a filesystem with mkfs parameters that spread its bitmaps evenly over a stripe."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.facts.layout import MetadataLayout, MkfsAdvice, StripeGeometry
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.layout import PARITY_CHUNKS
from ext4audit.layout.advice import advice_for, growth_for
from ext4audit.layout.group_search import bytes_per_inode, described
from ext4audit.layout.levels import NEAR_2
from ext4audit.remedies import quote

NEAR_COPIES_MASK = 0xFF


def even_out_bitmaps(
    device: str, layout: MetadataLayout, superblock: Superblock
) -> Iterator[Remedy]:
    """Yield the remedies that spread the bitmaps of the filesystem on `device` evenly."""
    advice = advice_for(layout, superblock)
    geometry = layout.geometry
    if geometry is None:
        return
    if advice and not _is_as_advised(layout, superblock, advice):
        yield _recreate(device, layout, geometry, superblock, advice)
    yield from _grow(layout, geometry, superblock)


def mkfs_line(device: str, layout: MetadataLayout, superblock: Superblock) -> str | None:
    """Return the command that recreates a filesystem as advised, None where nothing would change.

    It destroys all data. None too where no shell takes the name of the device.
    """
    advice, geometry, quoted = advice_for(layout, superblock), layout.geometry, quote(device)
    if advice is None or geometry is None or not quoted:
        return None
    if _is_as_advised(layout, superblock, advice):
        return None
    return f"{_mkfs(layout, geometry, superblock, advice)} {quoted}"


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
    quoted = quote(device)
    command = _mkfs(layout, geometry, superblock, advice)
    pattern = f"^Blocks per group: +{_blocks_per_group(layout, advice)}$"
    steps = (
        Step(Phase.PERSISTENT, f"{command} {quoted}"),
        Step(Phase.VERIFY, f"dumpe2fs -h {quoted} 2>/dev/null | grep -Eq '{pattern}'"),
    )
    return Remedy(
        summary="Back up, unmount, recreate with block groups that fit the stripe, restore: "
        f"mkfs DESTROYS all data on {device}.",
        disruption=Disruption.RECREATE,
        steps=steps if quoted else (),
        destructive=True,
        trade_off="Groups no longer start on chunk boundaries, and few systems use such layouts. "
        "With very many inodes mke2fs silently lowers the group size, so verify it. Copy label, "
        "UUID, reserved blocks and all features that are not named here yourself. There is no "
        "smaller change: stride and stripe width only affect the allocator and move no bitmap, and "
        "resize2fs keeps the group size.",
    )


def _mkfs(
    layout: MetadataLayout, geometry: StripeGeometry, superblock: Superblock, advice: MkfsAdvice
) -> str:
    chunk_blocks = geometry.chunk_bytes // layout.block_bytes
    # Without flex_bg packing stride moves the bitmaps: -G 1 -g 32760 on 4 disks with 32 KiB
    # chunks served 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
    stride = chunk_blocks if advice.flex_bg_groups > 1 else 0
    command = [
        "mkfs.ext4",
        f"-b {layout.block_bytes}",
        f"-g {advice.blocks_per_group_option}",
        f"-G {advice.flex_bg_groups}",
        *_kept(layout, superblock),
        f"-E stride={stride},stripe_width={chunk_blocks * _data_columns(geometry)}",
    ]
    return " ".join(command)


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
    """Return how many members hold data in each stripe, without copies and parity (mke2fs(8))."""
    members = len(geometry.members)
    if geometry.level == "raid10":
        copies = (NEAR_2 if geometry.layout is None else geometry.layout) & NEAR_COPIES_MASK
        return members // copies if copies and members % copies == 0 else members
    return members - PARITY_CHUNKS.get(geometry.level, 0)


def _grow(
    layout: MetadataLayout, geometry: StripeGeometry, superblock: Superblock
) -> Iterator[Remedy]:
    """Offer the next number of members that makes the current layout even, if it is near."""
    grown = growth_for(layout, superblock)
    if grown is None:
        return
    now, width = len(geometry.members), grown.members * geometry.chunk_bytes // layout.block_bytes
    yield Remedy(
        summary=f"Grow the array from {now} to {grown.members} members with mdadm, online.",
        disruption=Disruption.ONLINE,
        trade_off="The reshape rewrites the whole array: back up first. Then set the stripe width "
        f"of the superblock to {width} blocks.",
    )
