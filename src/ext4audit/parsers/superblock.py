"""Raw superblocks: ext4's, the tunable fields returned by an ioctl, and the journal's.

The magic number alone does not make a file a filesystem. An image is not mounted, so its checksum
must be right; in a filesystem that the kernel is writing to, it can be wrong.

Sources: Documentation/filesystems/ext4/super.rst and journal.rst; struct ext4_tune_sb_params of
include/uapi/linux/ext4.h (Linux 6.18); ext4_fill_super() of fs/ext4/super.c (6.12).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from ext4audit.facts.superblock import (
    JOURNAL_SUPERBLOCK_BYTES,
    RecordedError,
    Superblock,
    errors_behaviour,
    feature_names,
    mount_option_names,
    sizes_of,
    state_text,
)

_BYTES = 1024
_EXT4_MAGIC = 0xEF53
_SMALLEST_BLOCK_BYTES = 1024
_LARGEST_LOG_BLOCK = 6
_SMALL_DESCRIPTOR_BYTES = 32
_FIRST_REVISION_INODE_BYTES = 128
_BLOCK_NUMBER_BYTES = 4
_LEAST_FIRST_INODE = 11
_CRC32C_TYPE = 1
_HURD = 1
# The type (s_jnl_backup_type) with which s_jnl_blocks ends with the size of the journal's inode.
_JOURNAL_BACKUP_OF_INODE = 1
# i_block of the journal's inode, copied to s_jnl_blocks: an extent header, or a block map.
_JOURNAL_BLOCKS = 0x10C
_EXTENT_MAGIC = 0xF30A
_EXTENT_HEADER_BYTES = 12
_CHECKSUM_AT = 0x3FC
_CRC32C = 0x82F63B78
_BITS = 8
# Native byte order and explicit padding: an ioctl returns this machine's byte order, and the 232
# bytes of 64-bit systems end in 4 padding bytes from the compiler (in later headers, explicit).
_PARAMETERS = struct.Struct("=IIHHHHQQQIIIIHHBBHIII24x64s64x4x")
_JOURNAL_MAGIC = b"\xc0\x3b\x39\x98"
_SUPERBLOCK_TYPES = (3, 4)
_TYPE = slice(4, 8)
_ERRNO = slice(0x20, 0x24)


def parse_raw_superblock(data: bytes) -> Superblock:
    """Parse the 1024 bytes at byte 1024 of a filesystem.

    Raises ValueError for another length, another magic number, or impossible sizes. The checksum
    is not verified: the kernel may be writing the superblock of a mounted filesystem.
    `journal_bytes` is the superblock's copy of the size of the journal's inode, None without one.
    """
    if len(data) != _BYTES:
        raise ValueError(f"{len(data)} bytes instead of {_BYTES}")
    at = _Fields(data)
    if at.u16(0x38) != _EXT4_MAGIC:
        raise ValueError(f"the magic number is {at.u16(0x38):#06x} and not {_EXT4_MAGIC:#06x}")
    block_bytes, large = _block_bytes(at), bool(at.u32(0x60) & 0x80)
    first_revision = at.u32(0x4C) == 0
    return Superblock(
        default_mount_options=mount_option_names(at.u32(0x100)),
        mount_option_string=at.text(0x200, 64),
        features=feature_names(at.u32(0x5C), at.u32(0x60), at.u32(0x64)),
        errors=errors_behaviour(at.u16(0x3C)),
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
        state=state_text(at.u16(0x3A)),
        descriptor_bytes=_descriptor_bytes(at, block_bytes, large=large),
        reserved_gdt_blocks=at.u16(0xCE),
        first_meta_bg=at.u32(0x104),
        backup_bgs=tuple(group for group in (at.u32(0x24C), at.u32(0x250)) if group),
        reserved_blocks=_count(at, 0x8, 0x154, large=large),
        free_blocks=_count(at, 0xC, 0x158, large=large),
        free_inodes=at.u32(0x10),
        revision=at.u32(0x4C),
        max_mount_count=at.i16(0x36),
        check_interval_seconds=at.u32(0x44),
        last_mounted_at=at.time(0x2C, 0x275),
        last_checked_at=at.time(0x40, 0x277),
        journal_inode=at.u32(0xE0) or None,
        journal_device=at.u32(0xE4) or None,
        journal_uuid=at.uuid(0xD0),
        error_count=at.u32(0x194),
        first_error=_error(at, at.time(0x198, 0x278), 0x1A8, 0x1C8, 0x19C, 0x1A0),
        last_error=_error(at, at.time(0x1CC, 0x279), 0x1E0, 0x1D4, 0x1D0, 0x1D8),
        journal_first_block=_journal_first_block(at),
        journal_index_block=_journal_index_block(at),
        reserved_uid=at.u16(0x50),
        reserved_gid=at.u16(0x52),
    )


def parse_image_superblock(data: bytes) -> Superblock:
    """Parse the 1024 bytes of a superblock; raise ValueError if no kernel mounts it.

    The limits are those of ext4_fill_super() (fs/ext4/super.c, Linux 6.12). The checksum is the
    crc32c of the bytes before it (ext4_superblock_csum()); it exists only with metadata_csum.
    """
    superblock = parse_raw_superblock(data)
    if superblock.is_journal:
        raise ValueError("it is an external journal, not a filesystem")
    _check(_sizes(superblock, _Fields(data)))
    _check(_numbers(superblock, _Fields(data)))
    if "metadata_csum" in superblock.features:
        stored = int.from_bytes(data[_CHECKSUM_AT:], "little")
        if crc32c(data[:_CHECKSUM_AT]) != stored:
            raise ValueError("the checksum of its superblock is wrong")
    return superblock


def damage_of(data: bytes) -> str:
    """Return why no kernel mounts a superblock of these 1024 bytes, empty if it is valid."""
    if len(data) != _BYTES:
        raise ValueError(f"{len(data)} bytes instead of {_BYTES}")
    if not any(data):
        return "it is zeroed"
    try:
        parse_image_superblock(data)
    except ValueError as error:
        return str(error)
    return ""


def parse_backup_superblock(data: bytes, place: tuple[int, int, int]) -> Superblock:
    """Parse a backup; raise ValueError unless it has this group number, place and block size."""
    superblock = parse_image_superblock(data)
    group, block, block_bytes = place
    at = _Fields(data)
    if (at.u16(0x5A), superblock.block_bytes) != (group, block_bytes):
        raise ValueError(f"it is the backup of group {at.u16(0x5A)}")
    sizes = sizes_of(superblock)
    if sizes.first_block + group * sizes.blocks_per_group != block:
        raise ValueError(f"groups of {sizes.blocks_per_group} blocks")
    return superblock


def parse_tune_superblock(data: bytes) -> Superblock:
    """Parse the bytes that the ioctl returns; fields that the ioctl does not have are None.

    Raises ValueError if the length is not 232 bytes or the filesystem has no blocks.
    """
    if len(data) != _PARAMETERS.size:
        raise ValueError(f"{len(data)} bytes instead of {_PARAMETERS.size}")
    fields = _PARAMETERS.unpack(data)
    errors, stride, size_blocks, mount_options = fields[2], fields[5], fields[8], fields[9]
    stripe_width, string = fields[12], fields[21]
    if size_blocks == 0:
        raise ValueError("a filesystem without blocks")
    return Superblock(
        default_mount_options=mount_option_names(mount_options),
        mount_option_string=_text(string),
        features=feature_names(*fields[18:21]),
        errors=errors_behaviour(errors),
        stride_blocks=stride,
        stripe_width_blocks=stripe_width,
        size_blocks=size_blocks,
    )


def parse_journal_superblock(data: bytes) -> int:
    """Return s_errno: 0 or a negative error number; raise ValueError for other bytes.

    Documentation/filesystems/ext4/journal.rst ("Super Block"); a journal is big-endian.
    """
    is_superblock = int.from_bytes(data[_TYPE], "big") in _SUPERBLOCK_TYPES
    if (
        len(data) != JOURNAL_SUPERBLOCK_BYTES
        or not data.startswith(_JOURNAL_MAGIC)
        or not is_superblock
    ):
        raise ValueError("not the superblock of a journal")
    return int.from_bytes(data[_ERRNO], "big", signed=True)


def crc32c(data: bytes) -> int:
    """Return the crc32c as ext4 computes it: initially all ones, and not inverted at the end."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(_BITS):
            value = value >> 1 ^ (_CRC32C if value & 1 else 0)
    return value


def _check(contradictions: Iterable[tuple[bool, str]]) -> None:
    """Raise ValueError for the first false claim of a superblock."""
    claim = next((claim for is_false, claim in contradictions if is_false), None)
    if claim is not None:
        raise ValueError(f"its superblock claims {claim}")


def _sizes(superblock: Superblock, at: _Fields) -> Iterator[tuple[bool, str]]:
    """Yield each claim about sizes, preceded by whether it contradicts other fields."""
    block, inode = superblock.block_bytes or 0, superblock.inode_bytes or 0
    first, group = superblock.first_block or 0, superblock.blocks_per_group or 0
    inodes, groups = superblock.inodes_per_group or 0, superblock.groups or 0
    ratio, clusters = superblock.cluster_blocks or 1, at.u32(0x24)
    is_plain, bits = "bigalloc" not in superblock.features, _BITS * block
    is_power = not inode & (inode - 1)
    wrong_clusters = clusters * ratio != group or (is_plain and at.u32(0x1C) != at.u32(0x18))
    wrong_inodes = not 0 < inodes <= bits or inodes * groups != superblock.inode_count
    is_misplaced = ratio == 1 and first != int(block == _SMALLEST_BLOCK_BYTES)
    reserved = superblock.reserved_gdt_blocks or 0
    yield first >= superblock.size_blocks, f"{superblock.size_blocks} blocks"
    yield group > bits * ratio, f"{group} blocks in a group"
    yield wrong_inodes, f"{superblock.inode_count} inodes"
    yield wrong_clusters, f"{clusters} clusters in a group"
    is_inode = _FIRST_REVISION_INODE_BYTES <= inode <= block and is_power
    yield not is_inode, f"inodes of {inode} bytes"
    yield is_misplaced, f"that block {first} is the first"
    yield reserved > block // _BLOCK_NUMBER_BYTES, f"{reserved} blocks reserved to grow"


def _numbers(superblock: Superblock, at: _Fields) -> Iterator[tuple[bool, str]]:
    """Yield each claim about other fields, preceded by whether the kernel refuses it."""
    features, inode = superblock.features, superblock.inode_bytes or 0
    is_first_revision = superblock.revision == 0
    yield not is_first_revision and at.u32(0x54) < _LEAST_FIRST_INODE, f"inode {at.u32(0x54)} free"
    # Revision 0 has no such field: the kernel expects inodes of 128 bytes and finds none.
    is_new = is_first_revision and at.u16(0x58) > _FIRST_REVISION_INODE_BYTES
    yield is_new, f"revision 0 with inodes of {at.u16(0x58)} bytes"
    extra, room = max(at.u16(0x15C), at.u16(0x15E)), inode - _FIRST_REVISION_INODE_BYTES
    yield "extra_isize" in features and 0 < room < extra, f"{extra} more bytes of inodes"
    is_unknown = "metadata_csum" in features and at.u8(0x175) != _CRC32C_TYPE
    yield is_unknown, f"checksums of type {at.u8(0x175)}"
    is_hurd = at.u32(0x48) == _HURD and not features.isdisjoint({"64bit", "ea_inode"})
    yield is_hurd, "to be of the Hurd, with features that it does not have"
    mmp_block, first = at.u64(0x168), superblock.first_block or 0
    is_outside = "mmp" in features and not first < mmp_block < superblock.size_blocks
    yield is_outside, f"a block {mmp_block} of mmp"
    table = (superblock.groups or 0) * (superblock.descriptor_bytes or 0)
    first_meta_bg, blocks = (
        superblock.first_meta_bg or 0,
        -(-table // (superblock.block_bytes or 1)),
    )
    is_beyond = "meta_bg" in features and first_meta_bg > blocks
    yield is_beyond, f"that meta_bg begins with block {first_meta_bg} of {blocks} of descriptors"


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class _Fields:
    """Reader of the little-endian fields of a superblock by offset."""

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
        return _text(self._data[offset : offset + length])

    def uuid(self, offset: int) -> str | None:
        """Return a UUID, None if all bytes are zero."""
        raw = self._data[offset : offset + 16]
        return str(UUID(bytes=raw)) if any(raw) else None

    def time(self, offset: int, high: int) -> int | None:
        """Return a 40-bit time in seconds since 1970, None for zero (never)."""
        return self.u32(offset) | self.u8(high) << 32 or None


def _block_bytes(at: _Fields) -> int:
    if at.u32(0x18) > _LARGEST_LOG_BLOCK:
        raise ValueError(f"blocks of 2^{at.u32(0x18)} KiB")
    return _SMALLEST_BLOCK_BYTES << at.u32(0x18)


def _positive(number: int, what: str) -> int:
    if number == 0:
        raise ValueError(f"no {what}")
    return number


def _count(at: _Fields, low: int, high: int, *, large: bool) -> int:
    """Return a number of blocks; its upper half is used only with the feature 64bit."""
    return at.u32(low) | (at.u32(high) << 32 if large else 0)


def _descriptor_bytes(at: _Fields, block_bytes: int, *, large: bool) -> int:
    """Return the size of a descriptor, a power of two; raise ValueError as ext4_fill_super()."""
    if not large:
        return _SMALL_DESCRIPTOR_BYTES
    size = at.u16(0xFE)
    if not 2 * _SMALL_DESCRIPTOR_BYTES <= size <= block_bytes or size & (size - 1):
        raise ValueError(f"group descriptors of {size} bytes")
    return size


def _cluster_blocks(at: _Fields) -> int:
    """Return the blocks per cluster; s_log_cluster_size is meaningful only with bigalloc."""
    if not at.u32(0x64) & 0x200:
        return 1
    shift = at.u32(0x1C) - at.u32(0x18)
    if not 0 <= shift < struct.calcsize("I") * 8:
        raise ValueError(f"clusters of 2^{at.u32(0x1C)} KiB")
    return 1 << shift


def _flex_bg_groups(at: _Fields) -> int:
    """Return the groups per flex group, which is 1 without the feature flex_bg."""
    if at.u8(0x174) >= struct.calcsize("I") * 8:
        raise ValueError(f"flex groups of 2^{at.u8(0x174)} groups")
    return 1 << at.u8(0x174)


def _journal_bytes(at: _Fields) -> int | None:
    if not at.u32(0x5C) & 0x4 or not at.u32(0xE0) or at.u8(0xFD) != _JOURNAL_BACKUP_OF_INODE:
        return None
    return at.u32(0x148) << 32 | at.u32(0x14C)


def _journal_first_block(at: _Fields) -> int | None:
    """Return the journal's first block, None if the superblock's copy of its inode lacks it.

    Documentation/filesystems/ext4/ifork.rst: the first leaf of an extent tree of one level, or
    the first pointer of a block map.
    """
    if _journal_bytes(at) is None:
        return None
    if at.u16(_JOURNAL_BLOCKS) != _EXTENT_MAGIC:
        return at.u32(_JOURNAL_BLOCKS) or None
    return _first_of_extents(at, _JOURNAL_BLOCKS, depth=0)


def _journal_index_block(at: _Fields) -> int | None:
    """Return the block with the first extents, None if the inode has them or has more levels."""
    if _journal_bytes(at) is None or at.u16(_JOURNAL_BLOCKS) != _EXTENT_MAGIC:
        return None
    return _first_of_extents(at, _JOURNAL_BLOCKS, depth=1)


def parse_first_extent(data: bytes) -> int:
    """Return a file's first block from a leaf of extents; raise ValueError for other blocks."""
    at = _Fields(data)
    first = _first_of_extents(at, 0, depth=0) if at.u16(0) == _EXTENT_MAGIC else None
    if first is None:
        raise ValueError("not the first extents of a file")
    return first


def _first_of_extents(at: _Fields, node: int, *, depth: int) -> int | None:
    """Return the block of a node's first entry, None at another depth or without file block 0.

    In an index, the low half of the number comes before the high half (ifork.rst).
    """
    entry = node + _EXTENT_HEADER_BYTES
    if at.u16(node + 6) != depth or not at.u16(node + 2) or at.u32(entry):
        return None
    high, low = (entry + 8, entry + 4) if depth else (entry + 6, entry + 8)
    return at.u16(high) << 32 | at.u32(low) or None


def _error(at: _Fields, when: int | None, *places: int) -> RecordedError | None:
    """Return the recorded error with its fields at these offsets, None if it has no time."""
    if when is None:
        return None
    function, line, inode, block = places
    return RecordedError(when, at.text(function, 32), at.u32(line), at.u32(inode), at.u64(block))
