"""How full a filesystem is that was just made."""

from __future__ import annotations

from ext4audit.facts.superblock import Superblock
from ext4audit.facts.usage import Usage

_FIRST_INODES = 11
"""Taken by ext4 itself, and by lost+found."""


def planned_usage(superblock: Superblock) -> Usage:
    """Return the usage of a fresh filesystem: what is not free is metadata and no space at all.

    Where nobody made it yet, the metadata are taken to be the inode tables and the journal: the
    rest is a thousandth. ValueError where the superblock does not say enough.
    """
    block_bytes, inodes = superblock.block_bytes, superblock.inode_count
    if not block_bytes or inodes is None:
        raise ValueError("the superblock's sizes are not known")
    free = superblock.free_blocks
    if free is None:
        tables = inodes * (superblock.inode_bytes or 0)
        free = superblock.size_blocks - (tables + (superblock.journal_bytes or 0)) // block_bytes
    free_inodes = superblock.free_inodes
    return Usage(
        block_bytes=block_bytes,
        size_blocks=free,
        free_blocks=free,
        available_blocks=max(0, free - (superblock.reserved_blocks or 0)),
        inodes=inodes,
        free_inodes=inodes - _FIRST_INODES if free_inodes is None else free_inodes,
    )
