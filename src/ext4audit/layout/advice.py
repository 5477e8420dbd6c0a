"""Which blocks per group and flex_bg size spread the bitmaps evenly over a stripe.

The arithmetic, in closed form: with flex_bg every flex group begins with the bitmaps of its F
groups, 2F blocks back to back. Flex group i begins at block i * F * B, so that the runs march
over the stripe of N members in steps of F * B modulo N * C (C is the chunk). With the defaults
of mke2fs that step is a multiple of a power of two of chunks, and only the odd part of N
members is ever met. Checked against the layouts that mke2fs 1.47.0 makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from ext4audit.facts.layout import MetadataLayout

EVEN = 0.95
"""Jain's index from which a layout counts as even. Between 0.55 and 0.95 there is next to
nothing in all geometries of N 2-32, chunk 64K-1M."""

EVEN_IN_A_WINDOW = 0.7
"""The same for the first 2N flex groups: a layout that stays on one member for many flex
groups before it moves on is even as a whole, and a hotspot for a working set."""

BITS_PER_BYTE = 8
GROUP_MULTIPLE = 8
"""mke2fs: "blocks per group must be multiple of 8"."""
MAX_CLUSTERS_PER_GROUP = 65528
"""16 bits of free-cluster count, a multiple of 8: the cap for 64 KiB blocks (ext2_fs.h)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides where the bitmaps fall: the stripe, and the filesystem's geometry.

    `chunk_blocks` is the chunk in filesystem blocks; `flex_bg_groups` 1 means no flex_bg;
    `cluster_blocks` is the cluster ratio of bigalloc, 1 without it.
    """

    members: int
    chunk_blocks: int
    block_bytes: int
    flex_bg_groups: int
    cluster_blocks: int
    size_blocks: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Options for mke2fs that make the bitmaps even, and the evenness that they give.

    `blocks_per_group_option` is the value for -g, which counts clusters with bigalloc.
    """

    blocks_per_group_option: int
    flex_bg_groups: int
    evenness: float


def shape_of(layout: MetadataLayout) -> Shape | None:
    """Return the shape of a filesystem, None where a chunk is not a whole number of blocks.

    None as well for a group that one block of bitmap cannot describe: no mke2fs made that.
    """
    geometry = layout.geometry
    chunk_blocks, rest = divmod(geometry.chunk_bytes, layout.block_bytes)
    described_blocks = BITS_PER_BYTE * layout.block_bytes * layout.cluster_blocks
    if rest or not chunk_blocks or layout.blocks_per_group > described_blocks:
        return None
    return Shape(
        len(geometry.members),
        chunk_blocks,
        layout.block_bytes,
        layout.flex_bg_groups,
        layout.cluster_blocks,
        layout.size_blocks,
    )


def advise(shape: Shape) -> Advice | None:
    """Return the options nearest the defaults that make the bitmaps even, None if none do.

    The flex_bg size is kept where a group size exists for it, else halved until one does; the
    group size is the largest that is even by the gcd test and on the filesystem's real size.
    """
    flex_bg_groups = shape.flex_bg_groups
    while flex_bg_groups >= 1:
        for option in _group_sizes(shape):
            even = _evenness_if_even(shape, option, flex_bg_groups)
            if even is not None:
                return Advice(option, flex_bg_groups, even)
        flex_bg_groups //= 2
    return None


def predict(shape: Shape, blocks_per_group_option: int, flex_bg_groups: int) -> tuple[int, ...]:
    """Return the bitmap blocks on each member by the closed form.

    Flex group 0 in reality begins after the superblock and the group descriptors.
    """
    groups = -(-shape.size_blocks // (blocks_per_group_option * shape.cluster_blocks))
    return _march(shape, blocks_per_group_option, flex_bg_groups, groups)


def evenness(shape: Shape, blocks_per_group_option: int, flex_bg_groups: int) -> float:
    """Return Jain's index of the predicted bitmaps: 1.0 is even."""
    return _jain(predict(shape, blocks_per_group_option, flex_bg_groups))


def _group_sizes(shape: Shape) -> Iterator[int]:
    """Count down from mke2fs's default; a group an eighth smaller is no longer near it."""
    largest = min(BITS_PER_BYTE * shape.block_bytes, MAX_CLUSTERS_PER_GROUP)
    return iter(range(largest, largest * 7 // 8, -GROUP_MULTIPLE))


def _evenness_if_even(shape: Shape, option: int, flex_bg_groups: int) -> float | None:
    if not _meets_all_members(shape, option, flex_bg_groups):
        return None
    window_groups = 2 * shape.members * flex_bg_groups
    if _jain(_march(shape, option, flex_bg_groups, window_groups)) < EVEN_IN_A_WINDOW:
        return None
    real = evenness(shape, option, flex_bg_groups)
    return real if real >= EVEN else None


def _meets_all_members(shape: Shape, option: int, flex_bg_groups: int) -> bool:
    """Whether the runs, continued for ever, cover all chunks of the stripe equally.

    They begin at every multiple of the greatest common divisor of step and stripe: even if
    that divides a chunk, or the length of a run.
    """
    step = option * shape.cluster_blocks * flex_bg_groups
    spacing = gcd(step, shape.members * shape.chunk_blocks)
    return shape.chunk_blocks % spacing == 0 or 2 * flex_bg_groups % spacing == 0


def _march(shape: Shape, option: int, flex_bg_groups: int, groups: int) -> tuple[int, ...]:
    """Lay the bitmaps of `groups` groups on the stripe; return the blocks on each member."""
    loads = [0] * shape.members
    step = option * shape.cluster_blocks * flex_bg_groups
    for first_group in range(0, groups, flex_bg_groups):
        position = first_group // flex_bg_groups * step
        end = position + 2 * min(flex_bg_groups, groups - first_group)
        while position < end:
            chunk = position // shape.chunk_blocks
            chunk_end = min(end, (chunk + 1) * shape.chunk_blocks)
            loads[chunk % shape.members] += chunk_end - position
            position = chunk_end
    return tuple(loads)


def _jain(loads: Sequence[int]) -> float:
    """Jain's fairness index: (Σx)² / (N Σx²); 1.0 is even."""
    squares = sum(load * load for load in loads)
    return sum(loads) ** 2 / (len(loads) * squares) if squares else 1.0
