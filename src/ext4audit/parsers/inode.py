"""An inode of ext4, from its bytes (Documentation/filesystems/ext4/inodes.rst)."""

INODE_BYTES = 128
"""The part of an inode that every filesystem has."""
_MODE, _LINKS = slice(0, 2), slice(26, 28)
_TYPE_BITS, _REGULAR = 0xF000, 0x8000


def check_journal_inode(inode: bytes) -> bool:
    """Return True for what can be the inode of a journal; ValueError for what no kernel accepts.

    fs/ext4/super.c, ext4_get_journal_inode(): deleted, or no regular file.
    """
    if len(inode) != INODE_BYTES:
        raise ValueError("the image ends before it")
    mode, links = (int.from_bytes(inode[field], "little") for field in (_MODE, _LINKS))
    if not links:
        raise ValueError("the inode of the journal is deleted")
    if mode & _TYPE_BITS != _REGULAR:
        raise ValueError("the inode of the journal is no regular file")
    return True
