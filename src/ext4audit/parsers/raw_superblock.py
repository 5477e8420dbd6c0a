"""A superblock as its 1024 bytes: Documentation/filesystems/ext4/super.rst."""

from __future__ import annotations

import struct

from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.parsers.superblock_words import (
    errors_word,
    feature_words,
    flag_words,
    hash_word,
    mount_option_words,
    state_words,
    system_word,
)

_BYTES = 1024
_MAGIC = 0xEF53
_SMALLEST_BLOCK_BYTES = 1024
_LARGEST_LOG_BLOCK = 6
_SMALL_DESCRIPTOR_BYTES = 32
_FIRST_REVISION_INODE_BYTES = 128
_FIRST_REVISION_INODE = 11
# s_jnl_blocks ends with the size of the journal's inode, if its type says so.
_JOURNAL_BACKUP_OF_INODE = 1
# i_block of the journal's inode, copied to s_jnl_blocks: an extent header, or a block map.
_JOURNAL_BLOCKS = 0x10C
_EXTENT_MAGIC = 0xF30A
_EXTENT_HEADER_BYTES = 12


class _Fields:
    """The fields of a superblock by their offset, little-endian."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def u8(self, offset: int) -> int:
        return self._data[offset]

    def u16(self, offset: int) -> int:
        return int.from_bytes(self._data[offset : offset + 2], "little")

    def i16(self, offset: int) -> int:
        return int.from_bytes(self._data[offset : offset + 2], "little", signed=True)

    def u32(self, offset: int) -> int:
        return int.from_bytes(self._data[offset : offset + 4], "little")

    def u64(self, offset: int) -> int:
        return int.from_bytes(self._data[offset : offset + 8], "little")

    def text(self, offset: int, length: int) -> str:
        """Return a string up to its first NUL."""
        raw = self._data[offset : offset + length].partition(b"\0")[0]
        return raw.decode("utf-8", "surrogateescape")

    def uuid(self, offset: int) -> str | None:
        """Return a UUID, None for zeros."""
        digits = self._data[offset : offset + 16].hex()
        if not digits.strip("0"):
            return None
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def time(self, offset: int, high: int) -> int | None:
        """Return a time of 40 bits, None for zero: never."""
        return self.u32(offset) | self.u8(high) << 32 or None


def parse_raw_superblock(data: bytes) -> Superblock:
    """Parse the 1024 bytes that lie 1024 bytes behind the start of a filesystem.

    ValueError for another length, another magic number, or sizes that no filesystem has. The
    checksum is not verified: the kernel writes the superblock of a mounted filesystem at times
    of its own. `journal_bytes` is the copy of the size of the journal's inode that the
    superblock keeps, None where it keeps none.
    """
    if len(data) != _BYTES:
        raise ValueError(f"{len(data)} bytes instead of {_BYTES}")
    at = _Fields(data)
    if at.u16(0x38) != _MAGIC:
        raise ValueError(f"the magic number is {at.u16(0x38):#06x} and not {_MAGIC:#06x}")
    block_bytes, large = _block_bytes(at), bool(at.u32(0x60) & 0x80)
    first_revision = at.u32(0x4C) == 0
    return Superblock(
        default_mount_options=mount_option_words(at.u32(0x100)),
        mount_option_string=at.text(0x200, 64),
        features=feature_words(at.u32(0x5C), at.u32(0x60), at.u32(0x64)),
        errors=errors_word(at.u16(0x3C)),
        stride_blocks=at.u16(0x164),
        stripe_width_blocks=at.u32(0x170),
        size_blocks=_count(at, 0x4, 0x150, large=large),
        uuid=at.uuid(0x68),
        label=at.text(0x78, 16) or None,
        block_bytes=block_bytes,
        first_block=at.u32(0x14),
        blocks_per_group=_positive(at.u32(0x20), "blocks in a group"),
        inodes_per_group=at.u32(0x28),
        inode_bytes=_FIRST_REVISION_INODE_BYTES if first_revision else at.u16(0x58),
        inode_count=at.u32(0x0),
        flex_bg_groups=_flex_bg_groups(at),
        cluster_blocks=_cluster_blocks(at),
        journal_bytes=_journal_bytes(at),
        state=state_words(at.u16(0x3A)),
        last_mounted_on=at.text(0x88, 64) or None,
        descriptor_bytes=_descriptor_bytes(at, block_bytes, large=large),
        reserved_gdt_blocks=at.u16(0xCE),
        first_meta_bg=at.u32(0x104),
        backup_bgs=tuple(group for group in (at.u32(0x24C), at.u32(0x250)) if group),
        reserved_blocks=_count(at, 0x8, 0x154, large=large),
        free_blocks=_count(at, 0xC, 0x158, large=large),
        free_inodes=at.u32(0x10),
        first_inode=_FIRST_REVISION_INODE if first_revision else at.u32(0x54),
        revision=at.u32(0x4C),
        creator_os=system_word(at.u32(0x48)),
        flags=flag_words(at.u32(0x160)),
        hash_version=_hash_version(at),
        mount_count=at.u16(0x34),
        max_mount_count=at.i16(0x36),
        check_interval_seconds=at.u32(0x44),
        created_at=at.time(0x108, 0x276),
        last_mounted_at=at.time(0x2C, 0x275),
        last_written_at=at.time(0x30, 0x274),
        last_checked_at=at.time(0x40, 0x277),
        kbytes_written=at.u64(0x178),
        journal_inode=at.u32(0xE0) or None,
        journal_device=at.u32(0xE4) or None,
        journal_uuid=at.uuid(0xD0),
        error_count=at.u32(0x194),
        first_error=_first_error(at),
        last_error=_last_error(at),
        journal_first_block=_journal_first_block(at),
    )


def _block_bytes(at: _Fields) -> int:
    if at.u32(0x18) > _LARGEST_LOG_BLOCK:
        raise ValueError(f"blocks of 2^{at.u32(0x18)} KiB")
    return _SMALLEST_BLOCK_BYTES << at.u32(0x18)


def _positive(number: int, what: str) -> int:
    if number == 0:
        raise ValueError(f"no {what}")
    return number


def _count(at: _Fields, low: int, high: int, *, large: bool) -> int:
    """Return a number of blocks; its upper half counts with the feature 64bit only."""
    return at.u32(low) | (at.u32(high) << 32 if large else 0)


def _descriptor_bytes(at: _Fields, block_bytes: int, *, large: bool) -> int:
    """Return the size of a group descriptor: a power of two, as ext4_fill_super() has it."""
    if not large:
        return _SMALL_DESCRIPTOR_BYTES
    size = at.u16(0xFE)
    if not 2 * _SMALL_DESCRIPTOR_BYTES <= size <= block_bytes or size & (size - 1):
        raise ValueError(f"group descriptors of {size} bytes")
    return size


def _cluster_blocks(at: _Fields) -> int:
    """Return the blocks in a cluster; s_log_cluster_size means something with bigalloc only."""
    if not at.u32(0x64) & 0x200:
        return 1
    shift = at.u32(0x1C) - at.u32(0x18)
    if not 0 <= shift < struct.calcsize("I") * 8:
        raise ValueError(f"clusters of 2^{at.u32(0x1C)} KiB")
    return 1 << shift


def _flex_bg_groups(at: _Fields) -> int:
    """Return the groups of a flex group; without the feature flex_bg each is its own."""
    if at.u8(0x174) >= struct.calcsize("I") * 8:
        raise ValueError(f"flex groups of 2^{at.u8(0x174)} groups")
    return 1 << at.u8(0x174)


def _hash_version(at: _Fields) -> str | None:
    """Return the hash where there is an index, or a number that says which."""
    has_index = at.u32(0x5C) & 0x20
    return hash_word(at.u8(0xFC)) if has_index or at.u8(0xFC) else None


def _journal_bytes(at: _Fields) -> int | None:
    if not at.u32(0x5C) & 0x4 or not at.u32(0xE0) or at.u8(0xFD) != _JOURNAL_BACKUP_OF_INODE:
        return None
    return at.u32(0x148) << 32 | at.u32(0x14C)


def _journal_first_block(at: _Fields) -> int | None:
    """Return where the journal begins, None where the superblock's copy of its inode is no help.

    Documentation/filesystems/ext4/ifork.rst: the first leaf of an extent tree of one level, or
    the first pointer of a block map.
    """
    if _journal_bytes(at) is None:
        return None
    if at.u16(_JOURNAL_BLOCKS) != _EXTENT_MAGIC:
        return at.u32(_JOURNAL_BLOCKS) or None
    entries, depth = at.u16(_JOURNAL_BLOCKS + 2), at.u16(_JOURNAL_BLOCKS + 6)
    leaf = _JOURNAL_BLOCKS + _EXTENT_HEADER_BYTES
    # Of the journal's block 0, or the tree is not what it should be.
    if depth or not entries or at.u32(leaf):
        return None
    return at.u16(leaf + 6) << 32 | at.u32(leaf + 8) or None


def _first_error(at: _Fields) -> RecordedError | None:
    when = at.time(0x198, 0x278)
    if when is None:
        return None
    return RecordedError(when, at.text(0x1A8, 32), at.u32(0x1C8), at.u32(0x19C), at.u64(0x1A0))


def _last_error(at: _Fields) -> RecordedError | None:
    when = at.time(0x1CC, 0x279)
    if when is None:
        return None
    return RecordedError(when, at.text(0x1E0, 32), at.u32(0x1D4), at.u32(0x1D0), at.u64(0x1D8))
