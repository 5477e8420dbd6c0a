"""How many names the index of a directory has room for, at two levels (fs/ext4/namei.c)."""

from __future__ import annotations

ENTRY_BYTES = 8
"""An entry of the index, and the tail that holds the checksum of an index block."""
ROOT_HEAD_BYTES, NODE_HEAD_BYTES = 32, 8
"""What stands before the entries: "." and ".." and the index's own head, or an empty name."""
LONGEST_NAME_BYTES = 264
"""A directory entry with a name of 255 characters."""
USUAL_NAME_BYTES = 28
"""A directory entry with a name of 20 characters."""
FILLED = 3 / 4
"""How full blocks are that were split in the middle when they were full."""


def leaves(block_bytes: int) -> int:
    """Return how many blocks of names one directory can have."""
    root = (block_bytes - ROOT_HEAD_BYTES - ENTRY_BYTES) // ENTRY_BYTES
    node = (block_bytes - NODE_HEAD_BYTES - ENTRY_BYTES) // ENTRY_BYTES
    return root * node


def usual_names(block_bytes: int) -> int:
    """Return how many names of 20 characters fill them."""
    return leaves(block_bytes) * int(block_bytes * FILLED / USUAL_NAME_BYTES)


def least_names(block_bytes: int) -> int:
    """Return how few names can fill them: the longest, in blocks that are half full."""
    return leaves(block_bytes) * max(1, block_bytes // 2 // LONGEST_NAME_BYTES)
