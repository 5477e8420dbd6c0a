"""predict_table: the places that mke2fs chooses, without reading them."""

from __future__ import annotations

import os
import subprocess
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from builders import superblock
from ext4audit.facts.groups import GroupTable
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.closed_form import is_exact, predict_table
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, parameters
from layout.random_mkfs import mkfs_cases
from real_mke2fs import needs_e2fsprogs, read_superblock, read_table, run, sparse_image

GIB, TIB = 1 << 30, 1 << 40
SETS = int(os.environ.get("EXT4AUDIT_MKFS_SETS", "60"))
"""Hundreds take minutes: EXT4AUDIT_MKFS_SETS=800 for a release."""


def rows(table: GroupTable, *groups: int) -> list[tuple[int, int, int]]:
    """Return the places of some groups."""
    columns = (table.block_bitmaps, table.inode_bitmaps, table.inode_tables)
    return [(columns[0][group], columns[1][group], columns[2][group]) for group in groups]


def test_a_flex_group_begins_with_all_its_bitmaps() -> None:
    """1 GiB: behind superblock, 1 and 127 descriptor blocks lie 8 + 8 bitmaps, then tables."""
    table = predict_table(parameters(GIB))
    assert rows(table, 0, 1, 7) == [(129, 137, 145), (130, 138, 657), (136, 144, 3729)]


def test_later_flex_groups_begin_at_their_first_block() -> None:
    """1 TiB: flex group 1 is at 16 * 32768, and no backup stands before it."""
    table = predict_table(parameters(TIB))
    assert rows(table, 16, 17) == [(524288, 524304, 524320), (524289, 524305, 524832)]


def test_a_last_flex_group_with_fewer_groups_takes_less_room() -> None:
    """18 groups: the bitmaps of the last two are 2 + 2 blocks; a single one leaves room for 16."""
    two = predict_table(parameters(18 * 32768 * 4096))
    assert rows(two, 16, 17) == [(524288, 524290, 524292), (524289, 524291, 524804)]
    one = predict_table(parameters(17 * 32768 * 4096))
    assert rows(one, 16) == [(524288, 524304, 524320)]


def test_without_flex_bg_each_group_is_on_its_own() -> None:
    """Group 2 has no backup, group 3 has one of 1 + 1 + 127 blocks."""
    options = MkfsOptions(features=DEFAULT_FEATURES - {"flex_bg"})
    table = predict_table(parameters(GIB, options))
    assert rows(table, 2, 3) == [(65536, 65537, 65538), (98433, 98434, 98435)]


def test_without_flex_bg_a_stride_shifts_the_bitmaps() -> None:
    """The shift is stride times group number behind the inode table."""
    options = MkfsOptions(features=DEFAULT_FEATURES - {"flex_bg"}, stride_blocks=128)
    table = predict_table(parameters(GIB, options))
    assert rows(table, 2) == [(65536 + 512 + 256, 65536 + 512 + 257, 65536)]


@pytest.mark.parametrize(
    ("block", "exact"),
    [
        *((parameters(size), True) for size in (GIB, 100 * GIB, TIB, 4 * TIB, 16 * TIB)),
        (parameters(TIB, MkfsOptions(group_option=32744)), True),
        (parameters(TIB, MkfsOptions(flex_bg_groups=32)), True),
        (parameters(TIB, MkfsOptions(flex_bg_groups=1)), True),
        (parameters(TIB, MkfsOptions(flex_bg_groups=64)), False),
        (parameters(TIB, MkfsOptions(bytes_per_inode=1024)), False),
    ],
)
def test_ordinary_filesystems_are_exact(block: Superblock, *, exact: bool) -> None:
    """Large flex groups and very many inodes are not: their tables reach a backup."""
    assert is_exact(block) is exact


def test_descriptors_in_two_places_are_not_exact() -> None:
    """A resize may switch to meta_bg; where it did, the old groups keep the old scheme."""
    made = parameters(TIB)
    mixed = superblock(
        features=made.features | {"meta_bg"}, first_meta_bg=1, size_blocks=made.size_blocks
    )
    assert not is_exact(mixed)


@pytest.mark.parametrize(
    "fields", [{"block_bytes": None}, {"inodes_per_group": None}, {"first_block": None}]
)
def test_a_superblock_without_sizes_is_refused(fields: dict[str, None]) -> None:
    """No place can be computed without them."""
    with pytest.raises(ValueError, match="not known"):
        predict_table(superblock(**fields))


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("size_bytes", "words", "options"),
    [
        (3 * GIB, "", MkfsOptions()),
        (5 * TIB, "", MkfsOptions()),
        (1200 * GIB, "-g 32744 -G 8", MkfsOptions(group_option=32744, flex_bg_groups=8)),
    ],
)
def test_the_defaults_are_exact_to_the_block(
    size_bytes: int, words: str, options: MkfsOptions
) -> None:
    """Every place in every group is where mke2fs put it."""
    assert is_exact(parameters(size_bytes, options))
    with sparse_image(size_bytes) as image:
        run(f"mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard {words} {image}")
        assert same_table(predict_table(parameters(size_bytes, options)), read_table(image))


SEEN: Counter[str] = Counter()


@needs_e2fsprogs
def test_what_is_said_to_be_exact_is_exact_on_random_options() -> None:
    """Parameters and all places agree with mke2fs, or `is_exact` says that they need not."""
    SEEN.clear()
    check_random_options()
    assert SEEN["exact"] > SETS // 3


@settings(max_examples=SETS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(mkfs_cases())
def check_random_options(case: tuple[int, str, MkfsOptions]) -> None:
    """Make one filesystem and compare; what mke2fs refuses is no case."""
    size_bytes, words, options = case
    with sparse_image(size_bytes) as image:
        made = subprocess.run(
            ["mkfs.ext4", "-q", "-F", *words.split(), str(image)], capture_output=True, check=False
        )
        if made.returncode:
            SEEN["refused"] += 1
            return
        real, table = read_superblock(image), read_table(image)
    predicted = parameters(size_bytes, options)
    assert sizes(predicted) == sizes(real), words
    exact = is_exact(predicted)
    SEEN["exact" if exact else "not exact"] += 1
    assert not exact or same_table(predict_table(predicted), table), words


def sizes(block: Superblock) -> tuple[int | None, ...]:
    """Return what decides the places."""
    return (
        block.size_blocks,
        block.first_block,
        block.blocks_per_group,
        block.inodes_per_group,
        block.reserved_gdt_blocks,
    )


def same_table(one: GroupTable, other: GroupTable) -> bool:
    """Whether two tables have the same places."""
    return all(
        list(a) == list(b)
        for a, b in (
            (one.block_bitmaps, other.block_bitmaps),
            (one.inode_bitmaps, other.inode_bitmaps),
            (one.inode_tables, other.inode_tables),
        )
    )
