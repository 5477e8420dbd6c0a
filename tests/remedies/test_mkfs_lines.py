"""Each printed mkfs line is run: mke2fs accepts it, and the bitmaps lie as promised.

`EXT4AUDIT_MKFS_LINES=500` runs more random filesystems (a fifth of a second each).
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, assume, given
from hypothesis import strategies as st

from ext4audit.facts.layout import LayoutAdvice, MetadataLayout, StripeGeometry
from ext4audit.facts.superblock import Superblock, sizes_of
from ext4audit.layout.advice import layout_advice
from ext4audit.layout.bitmap_placement import measure
from ext4audit.layout.levels import map_of
from ext4audit.parsers.dumpe2fs import parse_group_table, parse_superblock
from ext4audit.remedies.mkfs import mkfs_line
from support.examples import examples
from support.images.mke2fs import (
    LAZY,
    MadeImage,
    MkfsRequest,
    mkfs_requests,
    needs_e2fsprogs,
    read_superblock,
    run,
    sparse_image,
    striped_geometry,
)

LEAST_MEMBERS = {"raid6": 4, "raid5": 3}
LARGEST_BYTES = 64 << 30
"""Larger images take seconds each."""
LEFT_TO_MKE2FS = {"flex_bg", "orphan_file", "metadata_csum_seed"}


class Found(NamedTuple):
    """A filesystem as dumpe2fs prints it, and its metadata on an array."""

    superblock: Superblock
    layout: MetadataLayout

    @property
    def advice(self) -> LayoutAdvice:
        """The advice of `layout`."""
        return layout_advice(self.layout, sizes_of(self.superblock))


def read(made: MadeImage, array: StripeGeometry) -> Found:
    """Read a filesystem, and count its metadata on an array."""
    superblock = parse_superblock(made.dumpe2fs("-h"))
    table = parse_group_table(made.dumpe2fs("-g"))
    device_bytes = None if made.offset_bytes else made.image.stat().st_size
    found = measure(table, sizes_of(superblock), map_of(array), device_bytes=device_bytes)
    return Found(superblock, found)


def run_quickly(line: str) -> None:
    """Run a printed line on an image, without writing its inode tables and its journal."""
    quick = line.replace(" -E ", f" -E {','.join(LAZY)},", 1)
    run(quick.replace("mkfs.ext4 ", "mkfs.ext4 -q -F -F ", 1))


@st.composite
def arrays(draw: st.DrawFn) -> StripeGeometry:
    """Draw an array of disks."""
    level = draw(st.sampled_from(("raid0", "raid0", "raid10", "raid5", "raid6")))
    members = draw(st.integers(LEAST_MEMBERS.get(level, 2), 24))
    return striped_geometry(members, draw(st.sampled_from((16, 64, 128, 256, 512, 1024))), level)


@needs_e2fsprogs
@examples(
    12,
    "EXT4AUDIT_MKFS_LINES",
    phases=(Phase.explicit, Phase.generate),  # a shorter example takes minutes of mke2fs
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)
@given(
    mkfs_requests(), arrays(), st.sampled_from(("", "", "-J size=4", "-J size=64", "-J size=1024"))
)
def test_a_printed_line_makes_what_it_promises(
    wish: MkfsRequest, array: StripeGeometry, journal: str
) -> None:
    """The groups, the features and the inodes, and how even the bitmaps of mke2fs are."""
    assume(wish.size_bytes <= LARGEST_BYTES)
    asked = MkfsRequest(wish.size_bytes, wish.offset_bytes, (*wish.options, *journal.split()))
    with asked.made() as made:
        assume(made is not None)
        assert made is not None
        old = read(made, array)
        line = mkfs_line(str(made.image), old.layout, old.superblock, wish.offset_bytes)
        assume(line is not None and not old.advice.is_even)
        run_quickly(str(line))
        new = read(made, array)
    promised = old.advice.advice
    assert promised is not None
    assert new.layout.evenness == pytest.approx(promised.evenness, abs=0.02)
    per_group = promised.blocks_per_group_option * old.layout.cluster_blocks
    assert new.layout.blocks_per_group == per_group
    assert new.layout.flex_bg_groups == promised.flex_bg_groups
    assert new.superblock.features - LEFT_TO_MKE2FS == old.superblock.features - LEFT_TO_MKE2FS
    inodes = 0.9 * (old.superblock.inode_count or 0)
    assert (new.superblock.inode_count or 0) >= inodes


PACKED = "-b 4096 -g 8096 -G 1 -i 4194304 -E packed_meta_blocks=1"


@needs_e2fsprogs
@pytest.mark.parametrize("members", [17, 19, 21])
def test_the_default_is_counted_bitmap_by_bitmap(members: int) -> None:
    """By the closed form, without backups, it is even: 0.99 for 19 members. It is 0.93."""
    with sparse_image(8012803072) as image:
        run(f"mke2fs -q -F -t ext4 {PACKED},{','.join(LAZY)} {image}")
        old = read(MadeImage(image, 0), striped_geometry(members, 128))
        run_quickly(str(mkfs_line(str(image), old.layout, old.superblock)))
        new = read(MadeImage(image, 0), striped_geometry(members, 128))
    promised = old.advice.advice
    assert promised is not None
    assert promised.evenness > 0.97
    assert new.layout.evenness == pytest.approx(promised.evenness, abs=0.001)


@needs_e2fsprogs
def test_packed_bitmaps_are_recreated_with_the_same_groups() -> None:
    """Without -E packed_meta_blocks, which no superblock shows, mke2fs spreads them: 0.99."""
    array = striped_geometry(7, 512, "raid6")
    with sparse_image(1888051200) as image:
        run(f"mke2fs -q -F -t ext4 -b 1024 -E packed_meta_blocks=1,{','.join(LAZY)} {image}")
        old = read(MadeImage(image, 0), array)
        run_quickly(str(mkfs_line(str(image), old.layout, old.superblock)))
        new = read(MadeImage(image, 0), array)
    promised = old.advice.advice
    assert promised is not None
    assert promised.is_default
    assert (old.layout.blocks_per_group, old.layout.flex_bg_groups) == (8192, 16)
    assert round(old.layout.evenness, 1) == 0.5
    assert new.layout.evenness == pytest.approx(promised.evenness, abs=0.02)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("blocks", "array", "groups"),
    [(524748, striped_geometry(8, 64), 16), (229850, striped_geometry(2, 128), 7)],
)
def test_a_last_group_that_was_left_out_is_counted_where_it_is_made(
    blocks: int, array: StripeGeometry, groups: int
) -> None:
    """Of a device mke2fs leaves out a small rest, which other groups have a place for."""
    with sparse_image(blocks * 4096) as image:
        run(f"mke2fs -q -F -t ext4 -b 4096 -E {','.join(LAZY)} {image}")
        old = read(MadeImage(image, 0), array)
        line = mkfs_line(str(image), old.layout, old.superblock)
        run_quickly(str(line))
        new = read(MadeImage(image, 0), array)
    assert (old.layout.groups, old.layout.size_blocks) == (groups, groups * 32768)
    promised = old.advice.advice
    assert promised is not None
    assert new.layout.evenness == pytest.approx(promised.evenness, abs=0.001)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("size_bytes", "options", "array"),
    [
        pytest.param(
            140739584,
            "-b 4096 -g 2952 -J size=64",
            striped_geometry(17, 128, "raid6"),
            id="half of it",
        ),
        pytest.param(
            92890112,
            "-b 4096 -O ^has_journal -N 120094 -I 512 -E lazy_itable_init=1",
            striped_geometry(20, 128),
            id="mostly inode tables",
        ),
        pytest.param(
            256 << 20,
            "-b 4096 -g 11064 -O sparse_super2 -E num_backup_sb=1",
            striped_geometry(9, 512),
            id="one backup",
        ),
        pytest.param(
            831606784,
            "-b 4096 -O fast_commit -J size=256",
            striped_geometry(21, 1024),
            id="fast commits",
        ),
    ],
)
def test_a_small_filesystem_is_made_anew(
    size_bytes: int, options: str, array: StripeGeometry
) -> None:
    """mke2fs refused some of these lines: "Total journal size too big", "requested number"."""
    with sparse_image(size_bytes) as image:
        run(f"mke2fs -q -F -t ext4 {options} {image}")
        old = read(MadeImage(image, 0), array)
        line = mkfs_line(str(image), old.layout, old.superblock)
        if line is None:
            assert old.advice.advice is None
            return
        run_quickly(line)
        new = read_superblock(image)
    assert (new.journal_bytes or 0) >= 0.8 * (old.superblock.journal_bytes or 0)
    assert new.features - LEFT_TO_MKE2FS == old.superblock.features - LEFT_TO_MKE2FS


@needs_e2fsprogs
def test_one_block_group_has_nothing_to_spread() -> None:
    """Groups of 256 blocks were advised for 10 MB, with a promise that was not kept."""
    with sparse_image(10 << 20) as image:
        run(f"mke2fs -q -F -t ext4 -b 4096 {image}")
        found = read(MadeImage(image, 0), striped_geometry(13, 64))
    assert found.advice.curable.startswith("It has one block group")
    assert (found.advice.advice, found.advice.recreate) == (None, None)
