"""The error that jbd2 recorded in a journal: by its superblock, or as dumpe2fs prints it."""

from __future__ import annotations

from ext4audit.parsers import dumpe2fs_lines as lines
from ext4audit.parsers.dumpe2fs_header import header_end
from ext4audit.parsers.sysfs import parse_integer

JOURNAL_SUPERBLOCK_BYTES = 1024
_MAGIC = b"\xc0\x3b\x39\x98"
_SUPERBLOCK_TYPES = (3, 4)
_TYPE = slice(4, 8)
_ERRNO = slice(0x20, 0x24)


def parse_journal_superblock(data: bytes) -> int:
    """Return s_errno: 0, or a negative error number; ValueError for other bytes.

    Documentation/filesystems/ext4/journal.rst ("Super Block"); a journal is big-endian.
    """
    is_superblock = int.from_bytes(data[_TYPE], "big") in _SUPERBLOCK_TYPES
    if len(data) != JOURNAL_SUPERBLOCK_BYTES or not data.startswith(_MAGIC) or not is_superblock:
        raise ValueError("not the superblock of a journal")
    return int.from_bytes(data[_ERRNO], "big", signed=True)


def parse_journal_errno(text: str) -> int:
    """Return what `dumpe2fs -h` says of the journal's error; it says nothing of 0.

    ValueError where it could not read the journal, which it then does not describe.
    """
    _, _, tail = lines.around_errors(text[header_end(text) :])
    fields = lines.last_values(tail)
    if "Journal sequence" not in fields:
        raise ValueError("dumpe2fs does not describe the journal")
    return parse_integer(fields.get("Journal errno", "0"))
