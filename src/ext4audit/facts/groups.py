"""Where the metadata of each block group lies on the filesystem's device."""

from __future__ import annotations

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
