"""The inode of a journal, as the kernel judges it when it mounts."""

from __future__ import annotations

import pytest

from ext4audit.parsers.inode import INODE_BYTES, check_journal_inode


def inode(mode: int, links: int) -> bytes:
    """Return an inode with i_mode and i_links_count."""
    raw = bytearray(INODE_BYTES)
    raw[0:2], raw[26:28] = mode.to_bytes(2, "little"), links.to_bytes(2, "little")
    return bytes(raw)


def test_a_regular_file_with_a_link_can_be_a_journal() -> None:
    """As mke2fs makes it."""
    assert check_journal_inode(inode(0o100600, 1))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (bytes(INODE_BYTES), "is deleted"),
        (inode(0o100600, 0), "is deleted"),
        (inode(0o040755, 2), "is no regular file"),
        (inode(0o100600, 1)[:-1], "ends before it"),
        (b"", "ends before it"),
    ],
    ids=["cleared", "no link", "directory", "cut", "nothing"],
)
def test_what_no_kernel_mounts_is_no_journal(raw: bytes, reason: str) -> None:
    """The copy in the superblock looks whole all the same."""
    with pytest.raises(ValueError, match=reason):
        check_journal_inode(raw)
