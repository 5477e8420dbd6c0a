"""How often descriptor blocks are written under churn of small files."""

from __future__ import annotations

import pytest

from ext4audit.layout.churn import descriptor_writes
from ext4audit.layout.groups import descriptor_table_blocks
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, parameters

TIB = 1 << 40
META_BG = MkfsOptions(features=DEFAULT_FEATURES - {"resize_inode"} | {"meta_bg"})


def test_a_group_that_changes_alone_writes_its_descriptor() -> None:
    """One transaction for each."""
    assert descriptor_writes(parameters(TIB), groups=1) == pytest.approx(1.0)


def test_one_descriptor_block_is_written_once() -> None:
    """Of 1 GiB there is one, for all groups."""
    small = parameters(1 << 30)
    assert descriptor_table_blocks(small) == 1
    assert descriptor_writes(small, groups=100) == pytest.approx(0.01)


def test_more_changes_between_checkpoints_are_fewer_writes_each() -> None:
    """And a larger filesystem coalesces less."""
    found = [descriptor_writes(parameters(TIB), groups) for groups in (1, 10, 100, 1000)]
    assert found == sorted(found, reverse=True)
    assert descriptor_writes(parameters(16 * TIB)) > descriptor_writes(parameters(TIB))


def test_descriptors_of_meta_bg_are_no_neighbours() -> None:
    """Nothing of them is merged."""
    assert descriptor_writes(parameters(TIB, META_BG)) > descriptor_writes(parameters(TIB))
