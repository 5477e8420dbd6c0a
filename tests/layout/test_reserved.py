"""reserved_blocks: what stands at the start of a group before its own metadata."""

from __future__ import annotations

from typing import Any

import pytest

from builders import superblock
from ext4audit.layout.reserved import descriptor_table_blocks, reserved_blocks

SPARSE = frozenset({"sparse_super", "64bit", "flex_bg"})
SIZES: dict[str, Any] = {
    "size_blocks": 9594 * 32768,
    "descriptor_bytes": 64,
    "reserved_gdt_blocks": 1024,
}


@pytest.mark.parametrize(
    ("features", "group", "blocks"),
    [
        pytest.param(SPARSE, 0, 1175, id="superblock, 150 and 1024 descriptor blocks"),
        pytest.param(SPARSE, 1, 1175, id="group 1 has a backup"),
        pytest.param(SPARSE, 2, 0, id="group 2 has none"),
        pytest.param(SPARSE, 343, 1175, id="a power of 7"),
        pytest.param(SPARSE, 45, 0, id="a product of 3 and 5"),
        pytest.param(SPARSE - {"sparse_super"}, 2, 1175, id="without sparse_super all have one"),
        pytest.param(SPARSE | {"meta_bg"}, 0, 2, id="meta_bg: superblock and one block"),
        pytest.param(SPARSE | {"meta_bg"}, 64, 1, id="meta_bg: the first of 64"),
        pytest.param(SPARSE | {"meta_bg"}, 65, 1, id="meta_bg: the second"),
        pytest.param(SPARSE | {"meta_bg"}, 127, 1, id="meta_bg: the last"),
        pytest.param(SPARSE | {"meta_bg"}, 66, 0, id="meta_bg: the third"),
        pytest.param(SPARSE | {"sparse_super2"}, 1, 1175, id="sparse_super2: named"),
        pytest.param(SPARSE | {"sparse_super2"}, 3, 0, id="sparse_super2: not named"),
    ],
)
def test_what_a_group_begins_with(features: frozenset[str], group: int, blocks: int) -> None:
    """A copy of superblock and descriptors, or with meta_bg a block of descriptors."""
    block = superblock(features=features, backup_bgs=(1, 9593), **SIZES)
    assert reserved_blocks(block, group) == blocks


def test_clusters_leave_the_boot_block_of_small_blocks_free() -> None:
    """With 1 KiB blocks and larger clusters block 0 is the first, and the superblock is in 1."""
    block = superblock(
        features=SPARSE | {"bigalloc"},
        block_bytes=1024,
        first_block=0,
        blocks_per_group=131072,
        size_blocks=131072,
        descriptor_bytes=64,
        reserved_gdt_blocks=0,
    )
    assert reserved_blocks(block, 0) == 3


def test_the_descriptor_table_is_rounded_up_to_blocks() -> None:
    """9594 descriptors of 64 bytes fill 149.9 blocks."""
    assert descriptor_table_blocks(superblock(features=SPARSE, **SIZES)) == 150
