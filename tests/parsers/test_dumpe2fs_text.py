from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.dumpe2fs_header import parse_superblock
from ext4audit.parsers.dumpe2fs_text import parse_captured_groups, parse_captured_superblock

Stored = Callable[[str], str]
OLD = "dumpe2fs/1.42.9-centos7-groups.txt"
NEW_GROUPS = """

Group 0: (Blocks 0-4095) csum 0x6fe3 [ITABLE_ZEROED]
  Primary superblock at 0, Group descriptors at 1-1
  Reserved GDT blocks at 2-600
  Block bitmap at 601 (+601), csum 0xff5bf545
  Inode bitmap at 617 (+617), csum 0x141e2979
  Inode table at 633-696 (+633)
  2433 free blocks, 1013 free inodes, 2 directories, 1013 unused inodes
  Free blocks: 1663-4095
  Free inodes: 12-1024
Group 1: (Blocks 4096-8191) csum 0xf8fc [INODE_UNINIT, BLOCK_UNINIT, ITABLE_ZEROED]
  Backup superblock at 4096, Group descriptors at 4097-4097
  Block bitmap at 602 (bg #0 + 602), csum 0x00000000
  Inode bitmap at 618 (bg #0 + 618), csum 0x00000000
  Inode table at 697-760 (bg #0 + 697)
  3495 free blocks, 1024 free inodes, 0 directories, 1024 unused inodes
"""


@pytest.fixture
def new(stored: Stored) -> str:
    """Return the full text of e2fsprogs 1.47."""
    return stored("dumpe2fs/1.47.0-default.txt") + NEW_GROUPS


def test_both_bitmaps_on_one_line(stored: Stored) -> None:
    """e2fsprogs 1.42 prints the bitmaps of a group on one line."""
    table = parse_captured_groups(stored(OLD))
    assert list(table.block_bitmaps) == [129, 130, 131]
    assert list(table.inode_bitmaps) == [145, 146, 147]
    assert list(table.inode_tables) == [161, 673, 1185]


def test_each_bitmap_on_its_line(new: str) -> None:
    """Since 1.43 each has its line, with its checksum."""
    table = parse_captured_groups(new)
    assert list(table.block_bitmaps) == [601, 602]
    assert list(table.inode_bitmaps) == [617, 618]
    assert list(table.inode_tables) == [633, 697]


@pytest.mark.parametrize("name", ["1.42.9-centos7", "1.47.0-default", "1.47.0-hostile-names"])
def test_the_superblock_is_that_of_the_header(stored: Stored, name: str) -> None:
    """The groups behind it change nothing, and a text that ends before them is one, too."""
    header = stored(f"dumpe2fs/{name}.txt")
    assert parse_captured_superblock(header + NEW_GROUPS) == parse_superblock(header)
    assert parse_captured_superblock(header) == parse_superblock(header)


def test_a_mount_point_forges_no_group(stored: Stored) -> None:
    """A name that holds the head of a group is a name: groups are looked for behind it."""
    header = stored("dumpe2fs/1.47.0-default.txt").replace(
        "<not available>", "/x\nGroup 0: (Blocks 0-1)\n  Block bitmap at 9, Inode bitmap at 8"
    )
    table = parse_captured_groups(header + NEW_GROUPS)
    assert list(table.block_bitmaps) == [601, 602]
    assert parse_captured_superblock(header + NEW_GROUPS).last_mounted_on is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Group 1:", "Group 2:"),
        ("Group 0:", "Group 1:"),
        ("Group 0:", "Gruppe 0:"),
        ("Inode bitmap at 617", "Inode bitmap at x"),
    ],
)
def test_a_gap_in_the_groups_is_refused(stored: Stored, old: str, new: str) -> None:
    """A part of the groups is not counted as all of them."""
    text = stored("dumpe2fs/1.47.0-default.txt") + NEW_GROUPS.replace(old, new)
    with pytest.raises(ValueError, match="block group"):
        parse_captured_groups(text)


def test_a_header_has_no_groups(stored: Stored) -> None:
    """`dumpe2fs -h` ends where the groups would begin."""
    with pytest.raises(ValueError, match="no block group"):
        parse_captured_groups(stored("dumpe2fs/1.47.0-default.txt"))


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    """Nothing but ValueError leaves the parsers."""
    for parse in (parse_captured_groups, parse_captured_superblock):
        with pytest.raises(ValueError, match="superblock"):
            parse(text)
