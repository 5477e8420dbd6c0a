"""Where the metadata of each block group lies on the filesystem's device."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class GroupTable:
    """All block groups, in order: three columns of block numbers, one entry a group.

    `inode_tables` are where the tables start. With flex_bg none of the three needs to lie inside
    the group itself (struct ext4_group_desc).
    Columns, because 64 TiB have 524,288 groups: an object for each would take ten times the
    memory of the descriptors themselves.
    """

    block_bitmaps: Sequence[int]
    inode_bitmaps: Sequence[int]
    inode_tables: Sequence[int]

    @property
    def groups(self) -> int:
        """The number of block groups."""
        return len(self.block_bitmaps)

    @classmethod
    def joined(cls, tables: Sequence[GroupTable]) -> GroupTable:
        """Return one table of the groups of several, in order."""
        if len(tables) == 1:
            return tables[0]
        columns = (array("Q"), array("Q"), array("Q"))
        for table in tables:
            for column, more in zip(
                columns, (table.block_bitmaps, table.inode_bitmaps, table.inode_tables), strict=True
            ):
                column.extend(more)
        return cls(*columns)

    def first(self, groups: int) -> GroupTable:
        """Return the table of the first groups only: those that a filesystem had before it grew.

        Growth adds groups at the end and moves none (fs/ext4/resize.c).
        """
        if groups >= self.groups:
            return self
        return GroupTable(
            self.block_bitmaps[:groups], self.inode_bitmaps[:groups], self.inode_tables[:groups]
        )

    def checked(self, groups: int, first_block: int, size_blocks: int) -> GroupTable:
        """Return the table itself; ValueError unless it is one of such a filesystem.

        A descriptor of zeros is a hole, not metadata in block 0: nothing lies in the first
        block, which is the superblock's.
        """
        for column in (self.block_bitmaps, self.inode_bitmaps, self.inode_tables):
            if len(column) != groups:
                raise ValueError(f"{len(column)} group descriptors of {groups} are seen")
            if not first_block < min(column, default=0) <= max(column) < size_blocks:
                raise ValueError(f"metadata of a group lies outside of {size_blocks} blocks")
        return self
