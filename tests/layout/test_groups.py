"""predict_table: the metadata positions that mke2fs chooses, computed without reading them."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from ext4audit.facts.superblock import GroupTable, Sizes, Superblock
from ext4audit.layout import (
    descriptor_blocks,
    descriptor_extents,
    descriptor_table_blocks,
    descriptors_per_block,
    has_superblock,
    reserved_blocks,
    superblock_copies,
    usual_backups,
)
from ext4audit.layout.groups import is_exact, predict_table
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, mke2fs_sizes
from support.builders import sizes
from support.examples import examples, share_of
from support.images.mke2fs import needs_e2fsprogs, read_superblock, read_table, run, sparse_image
from support.images.mkfs_parameters import mkfs_cases

TIB = 1 << 40
SPARSE = frozenset({"sparse_super", "64bit"})
META = SPARSE | {"meta_bg"}


def of_groups(groups: int, **changes: Any) -> Sizes:
    """Return a superblock of this many whole groups of 32768 blocks of 4 KiB."""
    first = changes.get("first_block", 0)
    per_group = changes.get("blocks_per_group", 32768)
    values = {"features": SPARSE, "size_blocks": first + groups * per_group, **changes}
    return sizes(**values)


@pytest.mark.parametrize(
    ("changes", "per_block"),
    [
        ({"descriptor_bytes": 64}, 64),
        ({"descriptor_bytes": 32}, 128),
        ({"descriptor_bytes": 128}, 32),
        ({"descriptor_bytes": 64, "block_bytes": 65536}, 1024),
        ({"descriptor_bytes": 64, "block_bytes": 1024}, 16),
    ],
)
def test_a_block_holds_as_many_descriptors_as_fit(changes: dict[str, Any], per_block: int) -> None:
    """All descriptors of a filesystem have the same size."""
    assert descriptors_per_block(of_groups(1, **changes)) == per_block


@pytest.mark.parametrize(
    ("groups", "changes", "blocks"),
    [
        (1, {}, (1,)),
        (64, {}, (1,)),
        (65, {}, (1, 2)),
        (200, {}, (1, 2, 3, 4)),
        # With 1 KiB blocks the superblock is in block 1, whatever the first data block is.
        (33, {"block_bytes": 1024, "first_block": 1, "blocks_per_group": 8192}, (2, 3, 4)),
        (33, {"block_bytes": 1024, "first_block": 0, "blocks_per_group": 131072}, (2, 3, 4)),
        (1025, {"block_bytes": 65536, "blocks_per_group": 65528}, (1, 2)),
        # meta_bg: groups 0, 64, 128, …; group 0 has the superblock before its descriptors.
        (200, {"features": META}, (1, 64 * 32768, 128 * 32768, 192 * 32768)),
        # Without sparse_super every group has a superblock.
        (200, {"features": frozenset({"meta_bg", "64bit"})}, (1, 2097153, 4194305, 6291457)),
        # Two classic blocks, then meta block groups 2 and 3.
        (200, {"features": META, "first_meta_bg": 2}, (1, 2, 128 * 32768, 192 * 32768)),
        (100, {"features": META, "first_meta_bg": 9}, (1, 2)),
        # Group 128 is one of the two groups with a backup by sparse_super2.
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
def test_descriptor_blocks_follow_the_superblock_or_begin_meta_groups(
    groups: int, changes: dict[str, Any], blocks: tuple[int, ...]
) -> None:
    """They follow the superblock, or each is in the first group that it describes."""
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
def test_descriptor_extents_end_with_the_last_descriptor(
    groups: int, changes: dict[str, Any], extents: tuple[tuple[int, int], ...]
) -> None:
    """Adjacent blocks are read at once, and nothing beyond is read."""
    assert descriptor_extents(of_groups(groups, **changes)) == extents


@pytest.mark.parametrize(
    ("features", "backups", "groups"),
    [
        (SPARSE, (), {0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125}),
        (SPARSE | {"sparse_super2"}, (1, 99), {0, 1, 99}),
        (SPARSE | {"sparse_super2"}, (), {0}),
        (frozenset(), (), set(range(126))),
    ],
)
def test_features_decide_which_groups_have_a_superblock(
    features: frozenset[str], backups: tuple[int, ...], groups: set[int]
) -> None:
    """They are powers of 3, 5 and 7, the two named by sparse_super2, or all."""
    block = sizes(features=features, backup_bgs=backups)
    assert {group for group in range(126) if has_superblock(block, group)} == groups
    assert superblock_copies(of_groups(126, features=features, backup_bgs=backups)) == len(groups)


@pytest.mark.parametrize("descriptor_bytes", [96, 8192])
def test_descriptors_that_do_not_fill_a_block_are_refused(descriptor_bytes: int) -> None:
    """Positions that are not certain are not returned."""
    with pytest.raises(ValueError, match="fill no block"):
        descriptor_extents(sizes(descriptor_bytes=descriptor_bytes))


SPARSE_FLEX = frozenset({"sparse_super", "64bit", "flex_bg"})
SIZES: dict[str, Any] = {
    "size_blocks": 9594 * 32768,
    "descriptor_bytes": 64,
    "reserved_gdt_blocks": 1024,
}


@pytest.mark.parametrize(
    ("features", "group", "blocks"),
    [
        pytest.param(SPARSE_FLEX, 0, 1175, id="superblock, 150 and 1024 descriptor blocks"),
        pytest.param(SPARSE_FLEX, 1, 1175, id="group 1 has a backup"),
        pytest.param(SPARSE_FLEX, 2, 0, id="group 2 has none"),
        pytest.param(SPARSE_FLEX, 343, 1175, id="a power of 7"),
        pytest.param(SPARSE_FLEX, 45, 0, id="a product of 3 and 5"),
        pytest.param(
            SPARSE_FLEX - {"sparse_super"}, 2, 1175, id="without sparse_super all have one"
        ),
        pytest.param(SPARSE_FLEX | {"meta_bg"}, 0, 2, id="meta_bg: superblock and one block"),
        pytest.param(SPARSE_FLEX | {"meta_bg"}, 64, 1, id="meta_bg: the first of 64"),
        pytest.param(SPARSE_FLEX | {"meta_bg"}, 65, 1, id="meta_bg: the second"),
        pytest.param(SPARSE_FLEX | {"meta_bg"}, 127, 1, id="meta_bg: the last"),
        pytest.param(SPARSE_FLEX | {"meta_bg"}, 66, 0, id="meta_bg: the third"),
        pytest.param(SPARSE_FLEX | {"meta_bg"}, 128, 1, id="meta_bg: the first of the next"),
        pytest.param(SPARSE_FLEX | {"sparse_super2"}, 1, 1175, id="sparse_super2: named"),
        pytest.param(SPARSE_FLEX | {"sparse_super2"}, 3, 0, id="sparse_super2: not named"),
    ],
)
def test_a_group_begins_with_backups_or_a_descriptor_block(
    features: frozenset[str], group: int, blocks: int
) -> None:
    """It begins with copies of superblock and descriptors, or with a descriptor block (meta_bg)."""
    block = sizes(features=features, backup_bgs=(1, 9593), **SIZES)
    assert reserved_blocks(block, group) == blocks


def test_clusters_leave_the_boot_block_of_small_blocks_free() -> None:
    """With 1 KiB blocks and larger clusters, block 0 is the first; the superblock is in block 1."""
    block = sizes(
        features=SPARSE_FLEX | {"bigalloc"},
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
    assert descriptor_table_blocks(sizes(features=SPARSE_FLEX, **SIZES)) == 150


GIB, TIB_CLOSED_FORM = 1 << 30, 1 << 40
QUICK = "lazy_itable_init=1,nodiscard"
SETS = share_of(60, "EXT4AUDIT_MKFS_SETS")
"""Hundreds take minutes: set EXT4AUDIT_MKFS_SETS=800 for a release."""


def rows(table: GroupTable, *groups: int) -> list[tuple[int, int, int]]:
    """Return the metadata positions of some groups."""
    columns = (table.block_bitmaps, table.inode_bitmaps, table.inode_tables)
    return [(columns[0][group], columns[1][group], columns[2][group]) for group in groups]


def test_a_flex_group_begins_with_all_its_bitmaps() -> None:
    """1 GiB: after superblock and 1 + 127 descriptor blocks come 8 + 8 bitmaps, then tables."""
    table = predict_table(mke2fs_sizes(GIB))
    assert rows(table, 0, 1, 7) == [(129, 137, 145), (130, 138, 657), (136, 144, 3729)]


def test_later_flex_groups_begin_at_their_first_block() -> None:
    """1 TiB: flex group 1 is at 16 * 32768, with no backup before it."""
    table = predict_table(mke2fs_sizes(TIB_CLOSED_FORM))
    assert rows(table, 16, 17) == [(524288, 524304, 524320), (524289, 524305, 524832)]


def test_a_last_flex_group_with_fewer_groups_takes_less_space() -> None:
    """18 groups: the last two have bitmaps of 2 + 2 blocks; a single one reserves space for 16."""
    two = predict_table(mke2fs_sizes(18 * 32768 * 4096))
    assert rows(two, 16, 17) == [(524288, 524290, 524292), (524289, 524291, 524804)]
    one = predict_table(mke2fs_sizes(17 * 32768 * 4096))
    assert rows(one, 16) == [(524288, 524304, 524320)]


def test_without_flex_bg_each_group_has_its_own_metadata() -> None:
    """Group 2 has no backup, group 3 has one of 1 + 1 + 127 blocks."""
    options = MkfsOptions(features=DEFAULT_FEATURES - {"flex_bg"})
    table = predict_table(mke2fs_sizes(GIB, options))
    assert rows(table, 2, 3) == [(65536, 65537, 65538), (98433, 98434, 98435)]


def test_without_flex_bg_a_stride_shifts_the_bitmaps() -> None:
    """They are shifted by stride times group number, after the inode table."""
    options = MkfsOptions(features=DEFAULT_FEATURES - {"flex_bg"}, stride_blocks=128)
    table = predict_table(mke2fs_sizes(GIB, options))
    assert rows(table, 2) == [(65536 + 512 + 256, 65536 + 512 + 257, 65536)]


@pytest.mark.parametrize(
    ("block", "exact"),
    [
        *(
            (mke2fs_sizes(size), True)
            for size in (GIB, 100 * GIB, TIB_CLOSED_FORM, 4 * TIB_CLOSED_FORM, 16 * TIB_CLOSED_FORM)
        ),
        (mke2fs_sizes(TIB_CLOSED_FORM, MkfsOptions(group_option=32744)), True),
        (mke2fs_sizes(TIB_CLOSED_FORM, MkfsOptions(flex_bg_groups=32)), True),
        (mke2fs_sizes(TIB_CLOSED_FORM, MkfsOptions(flex_bg_groups=1)), True),
        (mke2fs_sizes(TIB_CLOSED_FORM, MkfsOptions(flex_bg_groups=64)), False),
        (mke2fs_sizes(TIB_CLOSED_FORM, MkfsOptions(bytes_per_inode=1024)), False),
    ],
)
def test_ordinary_filesystems_are_exact(block: Sizes, *, exact: bool) -> None:
    """With large flex groups or very many inodes, tables reach a backup and are not exact."""
    assert is_exact(block) is exact


@pytest.mark.parametrize(("tail_blocks", "exact"), [(564, False), (575, False), (576, True)])
def test_a_last_group_must_hold_the_metadata_of_a_flex_group(
    tail_blocks: int, *, exact: bool
) -> None:
    """It needs 2 * 32 + 512 blocks; from 564 on mke2fs makes it, but packs it differently."""
    size_bytes = (32 * 32768 + tail_blocks) * 4096
    block = mke2fs_sizes(size_bytes, MkfsOptions(flex_bg_groups=32, inode_count=33 * 8192))
    assert block.groups == 33
    assert is_exact(block) is exact


def test_positions_are_not_exact_with_two_descriptor_schemes() -> None:
    """A resize may switch to meta_bg, after which the old groups keep the old scheme."""
    made = mke2fs_sizes(TIB_CLOSED_FORM)
    mixed = sizes(
        features=made.features | {"meta_bg"}, first_meta_bg=1, size_blocks=made.size_blocks
    )
    assert not is_exact(mixed)


EACH_PLACE = "-b 1024 -g 256 -i 16384 -O ^flex_bg,^has_journal,meta_bg,^resize_inode -E stride=1"
EACH_PLACE_OPTIONS = MkfsOptions(
    features=DEFAULT_FEATURES - {"flex_bg", "has_journal", "resize_inode"} | {"meta_bg"},
    block_bytes=1024,
    group_option=256,
    bytes_per_inode=16384,
    stride_blocks=1,
)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("size_bytes", "arguments", "options"),
    [
        (3 * GIB, "", MkfsOptions()),
        (5 * TIB_CLOSED_FORM, "", MkfsOptions()),
        (1200 * GIB, "-g 32744 -G 8", MkfsOptions(group_option=32744, flex_bg_groups=8)),
        (256 << 20, EACH_PLACE, EACH_PLACE_OPTIONS),  # a bitmap in the last block, and before it
        *(
            pytest.param(
                GIB,
                f"-O ^flex_bg -E stride={stride},{QUICK}",
                MkfsOptions(features=DEFAULT_FEATURES - {"flex_bg"}, stride_blocks=stride),
                id=f"the stride of group 1 ends {32126 - stride} blocks before its last one",
            )
            for stride in (32124, 32125, 32126)
        ),
        pytest.param(
            GIB,
            f"-G 2 -E stride=16,{QUICK}",
            MkfsOptions(flex_bg_groups=2, stride_blocks=16),
            id="a stride moves nothing that is packed",
        ),
        pytest.param(
            GIB >> 2,
            "-O bigalloc,meta_bg,^resize_inode -b 1024 -C 16384",
            MkfsOptions(
                features=(DEFAULT_FEATURES | {"bigalloc", "meta_bg"}) - {"resize_inode"},
                block_bytes=1024,
                cluster_bytes=16384,
            ),
            id="the boot block of 1 KiB, a superblock and a block of descriptors",
        ),
    ],
)
def test_positions_are_those_of_mke2fs_to_the_block(
    size_bytes: int, arguments: str, options: MkfsOptions
) -> None:
    """Every position in every group is that chosen by mke2fs."""
    assert is_exact(mke2fs_sizes(size_bytes, options))
    with sparse_image(size_bytes) as image:
        run(f"mkfs.ext4 -q -F -E {QUICK} {arguments} {image}")
        assert same_table(predict_table(mke2fs_sizes(size_bytes, options)), read_table(image))


SEEN: Counter[str] = Counter()


@needs_e2fsprogs
def test_positions_marked_exact_are_exact_for_random_options() -> None:
    """Parameters and positions agree with mke2fs, or `is_exact` reports that they may not."""
    SEEN.clear()
    check_random_options()
    assert SEEN["exact"] > SETS // 3


@examples(60, "EXT4AUDIT_MKFS_SETS", database=None)
@given(mkfs_cases())
def check_random_options(case: tuple[int, str, MkfsOptions]) -> None:
    """Make one filesystem and compare; a case that mke2fs refuses is skipped."""
    size_bytes, arguments, options = case
    with sparse_image(size_bytes) as image:
        made = subprocess.run(
            ["mkfs.ext4", "-q", "-F", *arguments.split(), str(image)],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            SEEN["refused"] += 1
            return
        real, table = read_superblock(image), read_table(image)
    predicted = mke2fs_sizes(size_bytes, options)
    assert deciding(predicted) == deciding(real), arguments
    exact = is_exact(predicted)
    SEEN["exact" if exact else "not exact"] += 1
    assert not exact or same_table(predict_table(predicted), table), arguments


def deciding(block: Sizes | Superblock) -> tuple[int | None, ...]:
    """Return the parameters that determine the positions."""
    return (
        block.size_blocks,
        block.first_block,
        block.blocks_per_group,
        block.inodes_per_group,
        block.reserved_gdt_blocks,
    )


def same_table(one: GroupTable, other: GroupTable) -> bool:
    """Return whether two tables have the same positions."""
    return all(
        list(a) == list(b)
        for a, b in (
            (one.block_bitmaps, other.block_bitmaps),
            (one.inode_bitmaps, other.inode_bitmaps),
            (one.inode_tables, other.inode_tables),
        )
    )


def test_the_usual_backups_are_those_of_sparse_super() -> None:
    """mke2fs(8), -b: 32768 for blocks of 4 KiB, 16384 for 2 KiB, 8193 for 1 KiB.

    Made by mke2fs 1.47.0 with blocks of 8 KiB and 64 KiB: 65528.
    """
    assert [usual_backups(size)[0] for size in (65536, 8192, 4096, 2048, 1024)] == [
        (1, 65528),
        (1, 65528),
        (1, 32768),
        (1, 16384),
        (1, 8193),
    ]
    groups = [group for group, _ in usual_backups(4096)]
    assert groups == [group for group in range(1, 50) if has_superblock(of_groups(50), group)]
    assert usual_backups(1024)[1] == (3, 24577)
