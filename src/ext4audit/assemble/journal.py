"""Read the error that jbd2 left in the journal of a filesystem that is alive."""

from __future__ import annotations

from ext4audit.assemble.reading import ask
from ext4audit.assemble.superblock import most_curable
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.journal import (
    JOURNAL_SUPERBLOCK_BYTES,
    parse_journal_errno,
    parse_journal_superblock,
)
from ext4audit.sources.ask import ReadBytes, RunCommand, Source

WHAT = "journal errno"


def read_journal_errno(
    source: Source, path: str, superblock: Evidence[Superblock]
) -> Evidence[int]:
    """Return the error number, 0 for none or without a journal.

    `superblock` was read from the device at `path`. dumpe2fs was asked already, and prints it.
    """
    if isinstance(superblock, Unknown):
        return superblock
    known = superblock.value
    if not known.has_journal:
        return Known(0, superblock.origin)
    if known.journal_device or (known.journal_uuid and not known.journal_inode):
        return Unknown(WHAT, Why.UNSUPPORTED, "the journal is on another device")
    printed = ask(source, RunCommand(("dumpe2fs", "-h", path)), parse_journal_errno, WHAT)
    if isinstance(printed, Known) or known.journal_first_block is None:
        return printed
    size_bytes = known.block_bytes or 0
    place = ReadBytes(path, known.journal_first_block * size_bytes, JOURNAL_SUPERBLOCK_BYTES)
    stored = derive(WHAT, parse_journal_superblock, source.fetch(place))
    return stored if isinstance(stored, Known) else most_curable(printed, stored)
