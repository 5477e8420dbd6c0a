"""The journal that mke2fs makes, by the number of blocks."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Unknown
from ext4audit.facts.superblock import Superblock
from ext4audit.rules.shared.quantities import Journal, is_external, journal_of, usual_blocks
from support.builders import GIB, filesystem, known, superblock

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size_mib", "block_bytes", "journal_kib"),
    [
        (3, 4096, 0),
        (100, 4096, 4096),
        (200, 4096, 16 << 10),
        (900, 4096, 16 << 10),
        (1 << 10, 4096, 32 << 10),
        (2 << 10, 4096, 64 << 10),
        (15 << 10, 4096, 64 << 10),
        (16 << 10, 4096, 128 << 10),
        (20 << 10, 4096, 128 << 10),
        (32 << 10, 4096, 256 << 10),
        (64 << 10, 4096, 512 << 10),
        (127 << 10, 4096, 512 << 10),
        (128 << 10, 4096, 1 << 20),
        (200 << 10, 4096, 1 << 20),
        (4 << 10, 1024, 32 << 10),
        (8 << 10, 1024, 64 << 10),
        (200 << 10, 1024, 256 << 10),
    ],
)
def test_the_usual_journal_is_that_of_mke2fs(
    size_mib: int, block_bytes: int, journal_kib: int
) -> None:
    """These are what dumpe2fs said of filesystems that mke2fs 1.47.0 made at these sizes."""
    assert usual_blocks(size_mib * MIB // block_bytes) * block_bytes == journal_kib << 10


@pytest.mark.parametrize(
    ("present_mib", "usual_mib", "size_gib", "undersized"),
    [
        (8, 1024, 200, True),
        (64, 1024, 200, True),
        (128, 1024, 200, False),
        (1024, 1024, 200, False),
        (4, 128, 20, False),
        (4, 128, 21, True),
    ],
    ids=["400 MB grown", "4 GB grown", "mke2fs 1.42", "today", "just 20 GiB", "more than 20 GiB"],
)
def test_less_than_an_eighth_of_the_usual_is_small(
    present_mib: int, usual_mib: int, size_gib: int, undersized: bool
) -> None:
    """An eighth is what mke2fs 1.42 made at most, and no finding."""
    assert Journal(present_mib * MIB, usual_mib * MIB, size_gib * GIB).undersized is undersized


@pytest.mark.parametrize(
    ("held", "external"),
    [
        (superblock(), False),
        (superblock(journal_bytes=None, journal_inode=8), False),
        (superblock(journal_bytes=None, journal_device=0x0801), True),
        (superblock(journal_bytes=None), False),
        (superblock(journal_bytes=None, journal_device=0x0801, features=frozenset()), False),
    ],
    ids=["size", "inode", "device", "not seen", "no journal"],
)
def test_a_journal_is_external_where_a_device_is_named(held: Superblock, external: bool) -> None:
    """A reader that sees neither inode nor device says nothing."""
    assert is_external(held) is external


def test_a_size_that_was_not_read_is_unknown() -> None:
    """The superblock's own bytes do not always state the journal's size."""
    gap = journal_of(filesystem(superblock=known(superblock(journal_bytes=None))))
    assert isinstance(gap, Unknown)
    assert gap.what == "size of the journal"
