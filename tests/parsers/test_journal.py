from __future__ import annotations

import pytest

from evidence_host import dumpe2fs_text
from ext4audit.parsers.journal import parse_journal_errno, parse_journal_superblock


def superblock(errno: int = 0, *, magic: int = 0xC03B3998, kind: int = 4) -> bytes:
    """Return a journal's superblock as big-endian words."""
    words = [magic, kind, 0, 4096, 16384, 1, 2, 1, errno & 0xFFFFFFFF]
    return b"".join(word.to_bytes(4, "big") for word in words).ljust(1024, b"\0")


@pytest.mark.parametrize("errno", [0, -5, -117])
def test_the_error_is_a_signed_number(errno: int) -> None:
    """Version 1 (3) and version 2 (4) have it at the same place."""
    assert parse_journal_superblock(superblock(errno)) == errno
    assert parse_journal_superblock(superblock(errno, kind=3)) == errno


@pytest.mark.parametrize(
    "data", [b"", superblock(magic=0xEF53), superblock(kind=1), superblock() + b"\0"]
)
def test_other_bytes_are_no_journal(data: bytes) -> None:
    """Among them a commit block, which begins alike."""
    with pytest.raises(ValueError, match="not the superblock of a journal"):
        parse_journal_superblock(data)


def test_dumpe2fs_says_nothing_of_no_error() -> None:
    """It prints the line for an error only."""
    assert parse_journal_errno(dumpe2fs_text()) == 0
    assert parse_journal_errno(dumpe2fs_text() + "Journal errno:            -5\n") == -5


def test_a_journal_that_dumpe2fs_did_not_read_has_no_answer() -> None:
    """Such as one on another device: silence is not 0."""
    text = dumpe2fs_text().partition("Total journal size")[0]
    with pytest.raises(ValueError, match="does not describe"):
        parse_journal_errno(text)


def test_a_label_cannot_forge_the_error() -> None:
    """What stands in the strings of the superblock counts for nothing."""
    assert parse_journal_errno(dumpe2fs_text(label="a\nJournal errno:")) == 0
