"""How often descriptor blocks are written while small files are created and deleted.

A transaction of jbd2 holds a block once, however often it changes, and a checkpoint writes it in
place once (Documentation/filesystems/ext4/journal.rst). One descriptor block describes 64 groups
(4 KiB blocks, 64bit), so changes in several of them are one write. Dirty descriptor blocks that
are neighbours on the disk are also one write, because the block layer merges them. Bitmaps and
inode tables are described by group, and groups that change at the same time are rarely
neighbours.

The number of groups that change between two checkpoints depends on the load. GROUPS is calibrated
with the experiment `hotspot` of the lab: see docs/measurements.md.
"""

from ext4audit.facts.superblock import Superblock
from ext4audit.layout.groups import descriptor_table_blocks

GROUPS = 100
"""How many groups change between two checkpoints."""


def descriptor_writes(superblock: Superblock, groups: int = GROUPS) -> float:
    """Return the writes of descriptor blocks for each group that changes, at most 1.

    The groups are taken to be random. With meta_bg no descriptor blocks are neighbours.
    """
    blocks = descriptor_table_blocks(superblock)
    if not blocks:
        return 1.0
    dirty = 1 - (1 - 1 / blocks) ** groups
    written = blocks * dirty
    if "meta_bg" not in superblock.features:
        written = written * (1 - dirty) + dirty
    return min(written / groups, 1.0)
