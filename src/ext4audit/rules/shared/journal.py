"""The size of the journal, compared with what mke2fs makes for a filesystem of the same size."""

from __future__ import annotations

from dataclasses import dataclass

from ext4audit.evidence import Evidence, Known, derive
from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation
from ext4audit.rules.shared.citations import stated
from ext4audit.rules.shared.quantities import GIB, size

USUAL_BLOCKS = (
    (2048, 0),
    (32768, 1024),
    (262144, 4096),
    (524288, 8192),
    (4194304, 16384),
    (8388608, 32768),
    (16777216, 65536),
    (33554432, 131072),
)
"""Blocks of the journal below a number of blocks (mke2fs 1.47.0, measured at 19 sizes)."""
USUAL_BLOCKS_BEYOND = 262144
SMALL = 8
"""Older versions of mke2fs make an eighth (1.42: 32768 blocks at most): that is not small."""
LEAST_BYTES = 20 * GIB


@dataclass(frozen=True, slots=True)
class Journal:
    """The sizes of an internal journal and of the one that mke2fs would make, in bytes."""

    present_bytes: int
    usual_bytes: int
    filesystem_bytes: int

    @property
    def undersized(self) -> bool:
        """Whether the filesystem is large, and its journal less than an eighth of the usual."""
        small = self.present_bytes * SMALL < self.usual_bytes
        return small and self.filesystem_bytes > LEAST_BYTES


def usual_blocks(size_blocks: int) -> int:
    """Return how many blocks mke2fs gives the journal of a filesystem of so many; 0 for none."""
    fitting = (journal for below, journal in USUAL_BLOCKS if size_blocks < below)
    return next(fitting, USUAL_BLOCKS_BEYOND)


def journal_of(fs: Filesystem) -> Evidence[Journal]:
    """Return the internal journal of a filesystem that has one."""
    block_bytes = stated(fs, "size of a block", lambda each: each.block_bytes)
    present = stated(fs, "size of the journal", lambda each: each.journal_bytes)

    def join(superblock: Superblock, block: int, journal: int) -> Journal:
        usual = usual_blocks(superblock.size_blocks) * block
        return Journal(journal, usual, superblock.size_blocks * block)

    origin = fs.superblock.origin if isinstance(fs.superblock, Known) else None
    return derive("journal", join, fs.superblock, block_bytes, present, origin=origin)


def is_external(superblock: Superblock) -> bool:
    """Whether the journal lies on a device of its own."""
    inside = bool(superblock.journal_inode or superblock.journal_bytes)
    return superblock.has_journal and bool(superblock.journal_device) and not inside


def cite_journal(fs: Filesystem, journal: Journal) -> tuple[Citation, ...]:
    """Cite the journal, and the size that it is compared with."""
    origin = fs.superblock.origin if isinstance(fs.superblock, Known) else ""
    usual = f"{size(journal.usual_bytes)} for a filesystem of {size(journal.filesystem_bytes)}"
    return (
        Citation("journal", size(journal.present_bytes), origin),
        Citation("journal that mke2fs would make", usual, "computed"),
    )
