from __future__ import annotations

import pytest

from ext4audit.facts.superblock import GroupTable, Sizes, sizes_of, split_spec
from support.builders import superblock

THREE = GroupTable((10, 110, 210), (11, 111, 211), (12, 112, 212))


def test_a_table_counts_its_groups() -> None:
    """Each group has one entry in each column."""
    assert THREE.groups == 3


@pytest.mark.parametrize(("groups", "expected"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_the_first_groups_are_those_before_a_growth(groups: int, expected: int) -> None:
    """Growth adds groups at the end, so a shorter table is that of the earlier filesystem."""
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
    """All blocks are after the superblock's, and before the end."""
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
    """Zeros, positions beyond the end and missing groups are gaps, not metadata."""
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
    """The type agrees with blkid(8)."""
    assert superblock(features=frozenset(features.split())).fstype == fstype


ALWAYS_READ = {"features", "size_blocks", "stride_blocks"}


def test_sizes_are_those_of_the_superblock() -> None:
    """100 GiB have 800 groups."""
    found = superblock().sizes
    assert found is not None
    assert found == sizes_of(superblock())
    assert {name: getattr(superblock(), name) for name in Sizes._fields} == found._asdict()
    assert (found.groups, found.size_bytes) == (800, 100 << 30)


@pytest.mark.parametrize("field", sorted({*Sizes._fields} - ALWAYS_READ))
def test_sizes_are_known_together_or_not_at_all(field: str) -> None:
    """No reader returns only some of them, and a missing one is not replaced by a default."""
    partial = superblock(**{field: None})
    assert partial.sizes is None
    with pytest.raises(ValueError, match="sizes are not known"):
        sizes_of(partial)


@pytest.mark.parametrize(
    "field",
    (
        "size_blocks block_bytes blocks_per_group inodes_per_group inode_bytes inode_count "
        "flex_bg_groups cluster_blocks descriptor_bytes"
    ).split(),
)
def test_sizes_that_no_filesystem_has_are_not_known(field: str) -> None:
    """A damaged superblock may hold zeros, by which nothing must be divided."""
    assert superblock(**{field: 0}).sizes is None
    assert superblock(**{field: 1}).sizes is not None


@pytest.mark.parametrize(
    ("first_block", "size_blocks", "groups"),
    [(0, 32768, 1), (0, 32769, 2), (1, 32769, 1), (1, 32770, 2)],
)
def test_groups_begin_at_the_first_block(first_block: int, size_blocks: int, groups: int) -> None:
    """The last group may be shorter; with 1 KiB blocks, block 0 is in no group."""
    block = superblock(first_block=first_block, size_blocks=size_blocks)
    assert block.groups == groups


@pytest.mark.parametrize(
    ("first", "block_bytes", "expected"),
    [(0, 4096, 0), (100, 4096, 409600), (None, 4096, None), (100, None, None)],
)
def test_where_the_journal_begins(
    first: int | None, block_bytes: int | None, expected: int | None
) -> None:
    """The position is in bytes, and known if both fields are."""
    block = superblock(journal_first_block=first, block_bytes=block_bytes)
    assert block.journal_at_bytes == expected


@pytest.mark.parametrize(("block_bytes", "expected"), [(4096, 100 << 30), (None, None)])
def test_the_size_in_bytes(block_bytes: int | None, expected: int | None) -> None:
    """Only the block size is needed."""
    assert superblock(block_bytes=block_bytes).size_bytes == expected


@pytest.mark.parametrize(
    ("features", "inode", "expected"),
    [("has_journal", 8, 8), ("has_journal", None, None), ("", 8, None)],
)
def test_the_inode_of_the_journal(features: str, inode: int | None, expected: int | None) -> None:
    """The feature decides: a number without it is left from a former journal."""
    block = superblock(features=frozenset(features.split()), journal_inode=inode)
    assert block.inode_of_journal == expected


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("UUID=ab-c", ("UUID", "ab-c")),
        ('UUID="ab-c"', ("UUID", "ab-c")),
        ("UUID='ab-c'", ("UUID", "ab-c")),
        ("LABEL='a'x", ("LABEL", "a")),
        ('LABEL="a"b"', ("LABEL", 'a"b')),
        ('LABEL=a"', ("LABEL", 'a"')),
        ("LABEL=a'b'", ("LABEL", "a'b'")),
        ("LABEL='a\"", ("LABEL", "'a\"")),
        ("/dev/disk/by-id/a=b", None),
        ("/dev/sda1", None),
    ],
)
def test_identifiers_lose_the_quotes_that_libblkid_drops(
    spec: str, parts: tuple[str, str] | None
) -> None:
    """UUID='…' in fstab must find its device."""
    assert split_spec(spec) == parts
