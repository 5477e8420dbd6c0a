from __future__ import annotations

from typing import Any

import pytest

from builders import superblock
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.descriptors import (
    descriptor_blocks,
    descriptor_bytes,
    descriptor_extents,
    descriptors_per_block,
    has_superblock,
)

TIB = 1 << 40
SPARSE = frozenset({"sparse_super", "64bit"})
META = SPARSE | {"meta_bg"}


def of_groups(groups: int, **changes: Any) -> Superblock:
    """Build a superblock of so many whole groups of 32768 blocks of 4 KiB."""
    first = changes.get("first_block", 0)
    per_group = changes.get("blocks_per_group", 32768)
    values = {"features": SPARSE, "size_blocks": first + groups * per_group, **changes}
    return superblock(**values)


@pytest.mark.parametrize(
    ("changes", "size", "per_block"),
    [
        ({"descriptor_bytes": 64}, 64, 64),
        ({"descriptor_bytes": 32}, 32, 128),
        ({"descriptor_bytes": 128}, 128, 32),
        ({"descriptor_bytes": None}, 64, 64),
        ({"descriptor_bytes": None, "features": frozenset()}, 32, 128),
        ({"descriptor_bytes": 64, "block_bytes": 65536}, 64, 1024),
        ({"descriptor_bytes": 64, "block_bytes": 1024}, 64, 16),
    ],
)
def test_a_block_holds_as_many_descriptors_as_fit(
    changes: dict[str, Any], size: int, per_block: int
) -> None:
    """Without a size of its own a descriptor has the one that mke2fs gives it."""
    block = of_groups(1, **changes)
    assert (descriptor_bytes(block), descriptors_per_block(block)) == (size, per_block)


@pytest.mark.parametrize(
    ("groups", "changes", "blocks"),
    [
        (1, {}, (1,)),
        (64, {}, (1,)),
        (65, {}, (1, 2)),
        (200, {}, (1, 2, 3, 4)),
        # The superblock of 1 KiB blocks is in block 1, whatever the first data block is.
        (33, {"block_bytes": 1024, "first_block": 1, "blocks_per_group": 8192}, (2, 3, 4)),
        (33, {"block_bytes": 1024, "first_block": 0, "blocks_per_group": 131072}, (2, 3, 4)),
        (1025, {"block_bytes": 65536, "blocks_per_group": 65528}, (1, 2)),
        # meta_bg: groups 0, 64, 128, …; group 0 has the superblock before its descriptors.
        (200, {"features": META}, (1, 64 * 32768, 128 * 32768, 192 * 32768)),
        # Every group has a superblock without sparse_super.
        (200, {"features": frozenset({"meta_bg", "64bit"})}, (1, 2097153, 4194305, 6291457)),
        # Two classic blocks, then meta block groups 2 and 3.
        (200, {"features": META, "first_meta_bg": 2}, (1, 2, 128 * 32768, 192 * 32768)),
        (100, {"features": META, "first_meta_bg": 9}, (1, 2)),
        # Group 128 is one of the two that sparse_super2 gives a backup.
        (
            200,
            {"features": META | {"sparse_super2"}, "backup_bgs": (1, 128)},
            (1, 2097152, 4194305, 6291456),
        ),
        (
            40,
            {"features": META, "block_bytes": 1024, "first_block": 1, "blocks_per_group": 8192},
            (2, 1 + 16 * 8192, 1 + 32 * 8192),
        ),
        (
            40,
            {"features": META, "block_bytes": 1024, "first_block": 0, "blocks_per_group": 16384},
            (2, 16 * 16384, 32 * 16384),
        ),
    ],
)
def test_descriptor_blocks(groups: int, changes: dict[str, Any], blocks: tuple[int, ...]) -> None:
    """They follow the superblock, or each lies in the first group that it describes."""
    assert descriptor_blocks(of_groups(groups, **changes)) == blocks


@pytest.mark.parametrize(
    ("groups", "changes", "extents"),
    [
        (1, {}, ((4096, 64),)),
        (64, {}, ((4096, 4096),)),
        (200, {}, ((4096, 12800),)),
        (200, {"descriptor_bytes": 32}, ((4096, 6400),)),
        (524288, {}, ((4096, 32 << 20),)),
        (
            130,
            {"features": META},
            ((4096, 4096), (64 * 32768 * 4096, 4096), (128 * 32768 * 4096, 128)),
        ),
        (
            193,
            {"features": META, "first_meta_bg": 2},
            ((4096, 8192), (128 * 32768 * 4096, 4096), (192 * 32768 * 4096, 64)),
        ),
    ],
)
def test_extents_end_with_the_last_descriptor(
    groups: int, changes: dict[str, Any], extents: tuple[tuple[int, int], ...]
) -> None:
    """Blocks that follow each other are read at once, and nothing beyond is read."""
    assert descriptor_extents(of_groups(groups, **changes)) == extents


@pytest.mark.parametrize(
    ("features", "backups", "groups"),
    [
        (SPARSE, None, {0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125}),
        (SPARSE | {"sparse_super2"}, (1, 99), {0, 1, 99}),
        (SPARSE | {"sparse_super2"}, None, {0}),
        (frozenset(), None, set(range(126))),
    ],
)
def test_groups_that_hold_a_superblock(
    features: frozenset[str], backups: tuple[int, ...] | None, groups: set[int]
) -> None:
    """Powers of 3, 5 and 7, the two that sparse_super2 names, or all."""
    block = superblock(features=features, backup_bgs=backups)
    assert {group for group in range(126) if has_superblock(block, group)} == groups


@pytest.mark.parametrize(
    "changes",
    [
        {"block_bytes": None},
        {"blocks_per_group": None},
        {"first_block": None},
        {"size_blocks": 0},
        {"descriptor_bytes": 96},
        {"descriptor_bytes": 8192},
    ],
)
def test_a_superblock_that_says_too_little_is_refused(changes: dict[str, Any]) -> None:
    """A place that is not certain is none."""
    with pytest.raises(ValueError, match=r"not known|fill no block"):
        descriptor_extents(superblock(**changes))
