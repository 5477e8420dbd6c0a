"""parameters: what mke2fs makes of a size and its options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.superblock import Superblock
from ext4audit.layout import mkfs_parameters
from ext4audit.layout.mkfs_parameters import (
    DEFAULT_FEATURES,
    MkfsOptions,
    _written,
    mke2fs_sizes,
    parameters,
)
from support.examples import examples
from support.images.mke2fs import needs_e2fsprogs, read_superblock, run, sparse_image

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
BIGALLOC = DEFAULT_FEATURES | {"bigalloc"}
SPARSE_SUPER2 = DEFAULT_FEATURES | {"sparse_super2"}
META_BG = (DEFAULT_FEATURES | {"meta_bg"}) - {"resize_inode"}
COMPARED = (
    "size_blocks block_bytes first_block blocks_per_group inodes_per_group inode_bytes "
    "inode_count flex_bg_groups cluster_blocks reserved_gdt_blocks journal_bytes features"
).split()


def fields_of(made: Superblock, *fields: str) -> tuple[object, ...]:
    """Return some fields."""
    return tuple(getattr(made, field) for field in fields)


@pytest.mark.parametrize(
    ("size_bytes", "block_bytes", "inodes_per_group", "groups", "reserved"),
    [
        pytest.param(2 * MIB, 1024, 256, 1, 15, id="floppy"),
        pytest.param(3 * MIB, 1024, 768, 1, 23, id="the smallest of the small"),
        pytest.param(100 * MIB, 1024, 1968, 13, 256, id="small"),
        pytest.param(511 * MIB, 1024, 2040, 64, 256, id="the largest of the small"),
        pytest.param(512 * MIB, 4096, 8192, 4, 63, id="the smallest of the default"),
        pytest.param(1 * GIB, 4096, 8192, 8, 127, id="default"),
        pytest.param(1 * TIB, 4096, 8192, 8192, 1024, id="1 TiB"),
        pytest.param(4 * TIB - MIB, 4096, 8192, 32768, 1024, id="the largest of the default"),
        pytest.param(4 * TIB, 4096, 4096, 32768, 1024, id="big"),
        pytest.param(16 * TIB, 4096, 2048, 131072, 0, id="huge, too large to grow into a reserve"),
    ],
)
def test_the_size_decides_block_size_and_inode_ratio(
    size_bytes: int, block_bytes: int, inodes_per_group: int, groups: int, reserved: int
) -> None:
    """mke2fs.conf's usage types choose block size and inode ratio."""
    made = parameters(size_bytes)
    fields = fields_of(made, "block_bytes", "inodes_per_group", "groups", "reserved_gdt_blocks")
    assert fields == (block_bytes, inodes_per_group, groups, reserved)


@pytest.mark.parametrize(
    ("size_bytes", "options", "blocks_per_group"),
    [
        pytest.param(20 * GIB, MkfsOptions(), 32768, id="8 bits a byte of bitmap"),
        pytest.param(20 * GIB, MkfsOptions(group_option=32744), 32744, id="-g"),
        pytest.param(
            20 * GIB,
            MkfsOptions(group_option=32744, inode_count=5300000),
            32544,
            id="lowered for the inodes, silently",
        ),
        pytest.param(20 * GIB, MkfsOptions(block_bytes=65536), 65528, id="capped at 16 bits"),
        pytest.param(
            1 * TIB,
            MkfsOptions(features=BIGALLOC, group_option=32744, cluster_bytes=65536),
            523904,
            id="-g counts clusters",
        ),
    ],
)
def test_the_blocks_of_a_group_may_differ_from_the_option(
    size_bytes: int, options: MkfsOptions, blocks_per_group: int
) -> None:
    """-g is what is asked for, and not always what one gets."""
    assert parameters(size_bytes, options).blocks_per_group == blocks_per_group


@pytest.mark.parametrize(
    ("size_bytes", "options", "expected"),
    [
        (GIB, MkfsOptions(group_option=32740), "multiple of 8"),
        (GIB, MkfsOptions(group_option=248), "out of range"),
        (GIB, MkfsOptions(group_option=32776), "out of range"),
        (GIB, MkfsOptions(block_bytes=2048, group_option=32744), "out of range"),
        (GIB, MkfsOptions(features=BIGALLOC, inode_count=9_000_000), "too many inodes"),
        (16 * TIB, MkfsOptions(features=DEFAULT_FEATURES - {"64bit"}), "too many without 64bit"),
        (4096, MkfsOptions(), "too few for a filesystem"),
        (0, MkfsOptions(), "too few for a filesystem"),
    ],
)
def test_impossible_parameters_are_refused_as_by_mke2fs(
    size_bytes: int, options: MkfsOptions, expected: str
) -> None:
    """A group size out of range, too many inodes, no room: an error, and no endless search."""
    with pytest.raises(ValueError, match=expected):
        parameters(size_bytes, options)


@pytest.mark.parametrize(
    ("size_bytes", "options", "backups"),
    [
        (GIB, MkfsOptions(features=SPARSE_SUPER2), (1, 7)),
        (GIB, MkfsOptions(features=SPARSE_SUPER2, backup_superblocks=1), (1,)),
        (256 * MIB, MkfsOptions(features=SPARSE_SUPER2, block_bytes=4096), (1,)),
        (128 * MIB, MkfsOptions(features=SPARSE_SUPER2, block_bytes=4096), ()),
    ],
)
def test_sparse_super2_backs_up_in_the_first_and_the_last_group(
    size_bytes: int, options: MkfsOptions, backups: tuple[int, ...]
) -> None:
    """Of two groups one has a backup, and one group has none."""
    assert parameters(size_bytes, options).backup_bgs == backups


def test_a_last_group_that_is_too_small_is_left_out() -> None:
    """A group of 100 blocks cannot hold its own 512 blocks of inodes."""
    assert parameters((10 * 32768 + 100) * 4096).size_blocks == 10 * 32768


@pytest.mark.parametrize(
    ("groups", "tail_blocks", "kept"),
    [
        (10, 2 + 512 + 49, False),
        (10, 2 + 512 + 50, True),
        # A backup: the superblock, a block of descriptors, and what is reserved for growth.
        (9, 2 + 512 + 1 + 1 + 143 + 49, False),
        (9, 2 + 512 + 1 + 1 + 144 + 50, True),
    ],
)
def test_a_last_group_needs_50_blocks_beside_its_metadata(
    groups: int, tail_blocks: int, *, kept: bool
) -> None:
    """Two bitmaps and 512 blocks of inodes, and in group 9 a backup."""
    whole = groups * 32768
    made = parameters((whole + tail_blocks) * 4096, MkfsOptions(inode_count=(groups + 1) * 8192))
    assert made.size_blocks == whole + (tail_blocks if kept else 0)


@needs_e2fsprogs
def test_features_dropped_for_a_last_group_stay_dropped() -> None:
    """13 groups of 256 blocks have no room to reserve descriptors; 12 would, and do not."""
    options = MkfsOptions(block_bytes=4096, group_option=256, bytes_per_inode=8192)
    with sparse_image((12 * 256 + 30) * 4096) as image:
        run(f"mke2fs -q -F -t ext4 -b 4096 -g 256 -i 8192 {image}")
        made = read_superblock(image)
        predicted = parameters(image.stat().st_size, options)
    assert (predicted.groups, predicted.reserved_gdt_blocks) == (made.groups, 0) == (12, 0)
    assert "resize_inode" not in made.features | predicted.features


@pytest.mark.parametrize(
    ("blocks", "journal_blocks"),
    [
        (2047, None),
        (2048, 1024),
        (32767, 1024),
        (32768, 4096),
        (262143, 4096),
        (262144, 8192),
        (524287, 8192),
        (524288, 16384),
        (4194303, 16384),
        (4194304, 32768),
        (8388607, 32768),
        (8388608, 65536),
        (16777215, 65536),
        (16777216, 131072),
        (33554431, 131072),
        (33554432, 262144),
    ],
)
def test_the_journal_grows_in_steps(blocks: int, journal_blocks: int | None) -> None:
    """Its blocks from a size on, and one block below; the smallest filesystems have none."""
    options = MkfsOptions(block_bytes=4096, bytes_per_inode=65536)
    made = _written(mke2fs_sizes(blocks * 4096, options)._replace(size_blocks=blocks), 0)
    assert made.journal_bytes == (journal_blocks and journal_blocks * 4096)
    assert ("has_journal" in made.features) is (journal_blocks is not None)


def test_no_journal_is_made_unless_it_is_requested() -> None:
    """Its size is then not known to anybody."""
    made = parameters(GIB, MkfsOptions(features=DEFAULT_FEATURES - {"has_journal"}))
    assert made.journal_bytes is None


@pytest.mark.parametrize("group_option", [256, 32768])
def test_groups_have_from_256_clusters_to_a_full_bitmap_block(group_option: int) -> None:
    """Both limits are allowed."""
    options = MkfsOptions(group_option=group_option, block_bytes=4096, bytes_per_inode=65536)
    assert parameters(100 * MIB, options).blocks_per_group == group_option


def test_a_table_too_long_for_one_group_becomes_meta_bg() -> None:
    """256 TiB: the descriptors would fill more than three quarters of a group."""
    made = parameters(256 * TIB)
    assert "meta_bg" in made.features
    assert "resize_inode" not in made.features


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("size_bytes", "arguments", "options"),
    [
        pytest.param(2 * MIB, "", MkfsOptions(), id="2 MiB, the smallest with a journal"),
        pytest.param(100 * MIB + 12345, "", MkfsOptions(), id="100 MiB"),
        pytest.param(511 * MIB, "", MkfsOptions(), id="511 MiB"),
        pytest.param(3 * GIB, "", MkfsOptions(), id="3 GiB"),
        pytest.param(700 * GIB, "", MkfsOptions(), id="700 GiB"),
        pytest.param(5 * TIB, "", MkfsOptions(), id="5 TiB"),
        pytest.param(17 * TIB, "", MkfsOptions(), id="17 TiB"),
        pytest.param(
            20 * TIB,
            "-i 4096",
            MkfsOptions(bytes_per_inode=4096),
            id="as many inodes as have numbers of 32 bits, in whole blocks",
        ),
        pytest.param(
            MIB,
            "-N 1 -I 128",
            MkfsOptions(inode_count=1, inode_bytes=128),
            id="inodes that are reserved only, and no journal",
        ),
        pytest.param(
            20 * GIB,
            "-g 32744 -N 5300000",
            MkfsOptions(group_option=32744, inode_count=5300000),
            id="many inodes",
        ),
        pytest.param(
            40 * GIB,
            "-O bigalloc -C 65536",
            MkfsOptions(features=BIGALLOC, cluster_bytes=65536),
            id="clusters",
        ),
        pytest.param(
            40 * GIB,
            "-O meta_bg,^resize_inode -I 128 -i 4096",
            MkfsOptions(features=META_BG, inode_bytes=128, bytes_per_inode=4096),
            id="meta_bg, small inodes",
        ),
        pytest.param(
            40 * GIB,
            "-b 1024 -G 64 -O ^64bit",
            MkfsOptions(block_bytes=1024, flex_bg_groups=64, features=DEFAULT_FEATURES - {"64bit"}),
            id="small blocks and descriptors",
        ),
    ],
)
def test_mke2fs_chooses_the_computed_parameters(
    size_bytes: int, arguments: str, options: MkfsOptions
) -> None:
    """Each field is what mke2fs writes into a real superblock."""
    with sparse_image(size_bytes) as image:
        run(f"mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard {arguments} {image}")
        real = read_superblock(image)
    assert fields_of(parameters(size_bytes, options), *COMPARED) == fields_of(real, *COMPARED)


@examples(100)
@given(size_bytes=st.integers(64 << 20, 4 << 30), inodes_per_block=st.integers(1, 3))
def test_the_number_of_groups_for_the_inodes_is_found_quickly(
    size_bytes: int, inodes_per_block: int
) -> None:
    """The first that one step of 8 blocks after the other leads to; there can be thousands."""
    options = MkfsOptions(block_bytes=1024, inode_count=size_bytes // 1024 * inodes_per_block)
    wanted = requested = mkfs_parameters._requested(size_bytes, options)
    most = 8 * requested.block_bytes
    while mkfs_parameters._inodes_per_group(wanted) > most:
        wanted = wanted._replace(blocks_per_group=wanted.blocks_per_group - 8)
    smaller = requested._replace(blocks_per_group=wanted.blocks_per_group + 8)
    for start in (requested, smaller):
        found = mkfs_parameters._with_smaller_groups(requested, start)
        assert found.blocks_per_group == min(wanted.blocks_per_group, start.blocks_per_group - 8)
