"""All readers of superblocks and block groups, on filesystems with random mke2fs options.

`EXT4AUDIT_RANDOM_FILESYSTEMS=1000` makes 1000 filesystems instead of a few.
"""

from __future__ import annotations

from hypothesis import given

from ext4audit.assemble.layout import read_image_group_table
from ext4audit.assemble.superblock import read_raw_superblock
from ext4audit.evidence import Known, need
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.dumpe2fs import (
    parse_captured_groups,
    parse_captured_superblock,
    parse_group_table,
    parse_superblock,
)
from ext4audit.sources.live import LiveSource
from support.examples import examples
from support.images.mke2fs import MkfsRequest, mkfs_requests, needs_e2fsprogs

FEW_GROUPS = 1024
"""For more groups, dumpe2fs without options takes longer than everything else together."""


def rounded(superblock: Superblock) -> Superblock:
    """Round the journal size as dumpe2fs does from 8 MiB on, and drop its position."""
    journal = superblock.journal_bytes
    unit = 1 << 20 if journal and journal >= 8 << 20 else 1 << 10
    return superblock._replace(
        journal_first_block=None,
        journal_index_block=None,
        journal_bytes=journal and journal // unit * unit,
    )


@needs_e2fsprogs
@examples(60, "EXT4AUDIT_RANDOM_FILESYSTEMS", derandomize=False)
@given(mkfs_requests())
def test_bytes_and_both_texts_say_the_same(wish: MkfsRequest) -> None:
    """Raw bytes, `dumpe2fs -h` and `-g` and the full text give one superblock and one table."""
    with wish.made() as made:
        if made is None:
            return
        image, source = str(made.image), LiveSource()
        raw = read_raw_superblock(source, image, offset_bytes=made.offset_bytes)
        superblock = parse_superblock(made.dumpe2fs("-h"))
        assert rounded(need(raw)) == superblock
        table = need(read_image_group_table(source, image, raw, made.offset_bytes))
        assert table == parse_group_table(made.dumpe2fs("-g"))
        if table.groups <= FEW_GROUPS:
            text = made.dumpe2fs()
            assert parse_captured_groups(text) == table
            assert parse_captured_superblock(text) == superblock
    assert isinstance(raw, Known)
