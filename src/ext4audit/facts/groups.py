"""Where the metadata of each block group lies on the filesystem's device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupLocation:
    """One block group: the block numbers of its two bitmaps and of its inode table's start.

    With flex_bg they need not lie inside the group itself (struct ext4_group_desc).
    """

    group: int
    block_bitmap: int
    inode_bitmap: int
    inode_table: int


@dataclass(frozen=True, slots=True)
class GroupTable:
    """All block groups, in order: three columns of block numbers, one entry a group.

    Columns, because 64 TiB have 524,288 groups: an object for each would take ten times the
    memory of the descriptors themselves.
    """

    block_bitmaps: Sequence[int]
    inode_bitmaps: Sequence[int]
    inode_tables: Sequence[int]
