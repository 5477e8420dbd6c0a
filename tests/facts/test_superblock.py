from __future__ import annotations

import pytest

from ext4audit.facts.superblock import GroupTable
from support.builders import superblock

THREE = GroupTable((10, 110, 210), (11, 111, 211), (12, 112, 212))


def test_a_table_counts_its_groups() -> None:
    """Each group has one entry in each column."""
    assert THREE.groups == 3


@pytest.mark.parametrize(("groups", "expected"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_the_first_groups_are_those_before_a_growth(groups: int, expected: int) -> None:
    """Growth adds groups at the end: a shorter table is the filesystem as it was."""
    table = THREE.first(groups)
    assert table.groups == expected
    assert list(table.inode_tables) == [12, 112, 212][:expected]


def test_tables_join_in_order() -> None:
    """Descriptors are read piece by piece."""
    joined = GroupTable.joined([THREE.first(1), THREE])
    assert list(joined.block_bitmaps) == [10, 10, 110, 210]
    assert list(joined.inode_bitmaps) == [11, 11, 111, 211]
    assert list(joined.inode_tables) == [12, 12, 112, 212]
    assert GroupTable.joined([THREE]) is THREE


def test_a_table_of_the_filesystem_is_passed_on() -> None:
    """All blocks lie behind the superblock's, and before the end."""
    assert THREE.checked(3, 9, 213) is THREE


@pytest.mark.parametrize(
    ("table", "groups", "first_block", "size_blocks", "message"),
    [
        (THREE, 2, 0, 213, "3 group descriptors of 2"),
        (THREE, 4, 0, 213, "3 group descriptors of 4"),
        (THREE, 3, 0, 212, "outside of 212 blocks"),
        (THREE, 3, 10, 213, "outside of 213 blocks"),
        (GroupTable((10, 0), (11, 111), (12, 112)), 2, 0, 213, "outside"),
        (GroupTable((10, 110), (11, 0), (12, 112)), 2, 0, 213, "outside"),
        (GroupTable((10, 110), (11, 111), (1 << 60, 112)), 2, 0, 213, "outside"),
        (GroupTable((10, 110), (11,), (12, 112)), 2, 0, 213, "1 group descriptors of 2"),
        (GroupTable((), (), ()), 0, 0, 213, "outside"),
    ],
)
def test_another_table_is_refused(
    table: GroupTable, groups: int, first_block: int, size_blocks: int, message: str
) -> None:
    """Zeros, places beyond the end and missing groups are gaps and no metadata."""
    with pytest.raises(ValueError, match=message):
        table.checked(groups, first_block, size_blocks)


@pytest.mark.parametrize(
    ("features", "fstype"),
    [
        ("", "ext2"),
        ("ext_attr resize_inode dir_index filetype sparse_super large_file", "ext2"),
        ("has_journal filetype needs_recovery", "ext3"),
        ("has_journal filetype extent", "ext4"),
        ("metadata_csum", "ext4"),
        ("FEATURE_R31", "ext4"),
    ],
)
def test_the_type_follows_from_the_features(features: str, fstype: str) -> None:
    """As blkid(8) tells it."""
    assert superblock(features=frozenset(features.split())).fstype == fstype
