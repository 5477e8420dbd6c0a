"""Raw bytes of disk images: partition tables, e2image files, the journal's inode, other formats.

Sources: block/partitions/msdos.c and include/linux/msdos_partition.h (Linux 6.12) for MBR; UEFI
Specification 2.10, section 5.3, and block/partitions/efi.c, which is stricter, for GPT; `struct
ext2_image_hdr` (e2fsprogs 1.47, lib/ext2fs/e2image.h) for e2image, little-endian since 1.43;
Documentation/filesystems/ext4/inodes.rst for inodes.

Other formats are identified by their magic numbers. Sources: libblkid/src/superblocks and
partitions of util-linux 2.41 for LUKS, LVM, swap, md and the filesystems; docs/interop/qcow2.rst
and block/{vdi,vhdx,vpc,vmdk}.c of QEMU 9 for the images of virtual machines; RFC 1952, RFC 8878
and the specification of xz for compressed files.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

RECORD_BYTES = 512
"""The size of a boot record, and of the part of a GPT header block that is read."""
PROTECTIVE = 0xEE
"""The type of the MBR entry that marks a disk with a GPT; a hybrid MBR has more entries."""
EXTENDED = frozenset({0x05, 0x0F, 0x85})
"""The types of MBR entries for extended partitions, which hold logical partitions."""
_SIGNATURE = b"\x55\xaa"
_ENTRIES_AT, _ENTRY_BYTES, _ENTRIES = 446, 16, 4
_STATUSES = {0x00, 0x80}
_GPT_SIGNATURE = b"EFI PART"
_GPT_HEADER_BYTES = 92
_GPT_ENTRY_BYTES = frozenset(128 << shift for shift in range(6))
HEADER_BYTES = 304
_MAGIC = bytes.fromhex("10b72b7f")
_DESCRIPTION = b"Ext2 Image 1."
_LARGEST_BLOCK_BYTES = 64 << 10


class BootEntry(NamedTuple):
    """An entry of a boot record; what `start_sectors` is relative to depends on the record."""

    type: int
    start_sectors: int
    size_sectors: int


class GptHeader(NamedTuple):
    """The start of the entries of a GPT, their number as given in the header, and their size."""

    entries_at_blocks: int
    entries: int
    entry_bytes: int


class E2imageHeader(NamedTuple):
    """The offsets of the copies of the superblock and of the group descriptors in the file.

    The superblock takes a whole block. The descriptors of all groups follow without gaps,
    including those that meta_bg scatters over the filesystem.
    """

    superblock_at_bytes: int
    descriptors_at_bytes: int


def parse_boot_record(data: bytes) -> tuple[BootEntry, ...]:
    """Return the four entries of a boot record; raise ValueError for other data.

    The start of a logical partition is relative to its record; the start of the next record is
    relative to the extended partition.
    """
    if len(data) != RECORD_BYTES or data[-2:] != _SIGNATURE:
        raise ValueError("not a boot record: it does not end with 55 AA")
    places = range(_ENTRIES_AT, _ENTRIES_AT + _ENTRIES * _ENTRY_BYTES, _ENTRY_BYTES)
    return tuple(
        BootEntry(data[at + 4], _number(data, at + 8, 4), _number(data, at + 12, 4))
        for at in places
    )


def parse_mbr(data: bytes) -> tuple[BootEntry, ...]:
    """Return the four entries of an MBR; raise ValueError also for a filesystem's boot sector.

    Such a sector ends with the same signature, but has code in place of the entries.
    """
    entries = parse_boot_record(data)
    statuses = {data[_ENTRIES_AT + index * _ENTRY_BYTES] for index in range(_ENTRIES)}
    if not statuses <= _STATUSES or not any(entry.size_sectors for entry in entries):
        raise ValueError("a boot sector without a partition table")
    return entries


def parse_gpt_header(data: bytes) -> GptHeader:
    """Parse the beginning of a GPT header; raise ValueError if it is damaged.

    The header's checksum is verified. The checksum of the entries is not, because the content of
    each partition is checked anyway.
    """
    if len(data) != RECORD_BYTES or not data.startswith(_GPT_SIGNATURE):
        raise ValueError("no GPT header: it does not start with EFI PART")
    size = _number(data, 12, 4)
    if not _GPT_HEADER_BYTES <= size <= len(data):
        raise ValueError(f"a GPT header of {size} bytes")
    if zlib.crc32(data[:16] + bytes(4) + data[20:size]) != _number(data, 16, 4):
        raise ValueError("the checksum of the GPT header is wrong")
    header = GptHeader(_number(data, 72, 8), _number(data, 80, 4), _number(data, 84, 4))
    if header.entry_bytes not in _GPT_ENTRY_BYTES:
        raise ValueError(f"GPT entries of {header.entry_bytes} bytes")
    return header


def parse_gpt_entries(data: bytes, entry_bytes: int) -> tuple[tuple[int, int, int], ...]:
    """Return the number, first block and last block of each entry in use with a valid range."""
    found = []
    for index in range(len(data) // entry_bytes):
        entry = data[index * entry_bytes : (index + 1) * entry_bytes]
        first, last = _number(entry, 32, 8), _number(entry, 40, 8)
        if any(entry[:16]) and 0 < first <= last:
            found.append((index + 1, first, last))
    return tuple(found)


def is_e2image(data: bytes) -> bool:
    """Return whether a file that begins with `data` was written by e2image."""
    return data.startswith(_MAGIC) and data[4:].startswith(_DESCRIPTION)


def parse_e2image_header(data: bytes) -> E2imageHeader:
    """Parse the first 304 bytes of an e2image file; raise ValueError if the offsets are invalid."""
    if len(data) != HEADER_BYTES or not is_e2image(data):
        raise ValueError("no header of e2image")
    block_bytes = int.from_bytes(data[0xCC:0xD0], "little")
    superblock_at = int.from_bytes(data[0x11C:0x120], "little")
    if not 1 << 10 <= block_bytes <= _LARGEST_BLOCK_BYTES or superblock_at < HEADER_BYTES:
        raise ValueError("an e2image file without a superblock")
    return E2imageHeader(superblock_at, superblock_at + block_bytes)


def _number(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(data[offset : offset + size], "little")


class Signature(NamedTuple):
    """A magic number, its offset, and the kind of content that it identifies."""

    kind: str
    offset_bytes: int
    magic: bytes


_PAGE_SIZES = (4096, 8192, 16384, 65536)
_SWAP = (b"SWAPSPACE2", b"SWAP-SPACE")
_RAW = "convert it with qemu-img convert -O raw"
_UNPACK = "uncompress it first"
SIGNATURES = (
    Signature("LUKS, which is encrypted: open it and scan the device", 0, b"LUKS\xba\xbe"),
    *(
        Signature("an LVM physical volume: scan a logical volume of it", 512 * n, b"LABELONE")
        for n in range(4)
    ),
    *(Signature("swap space", page - len(m), m) for page in _PAGE_SIZES for m in _SWAP),
    Signature("a member of an md array: scan the array", 0, b"\xfc\x4e\x2b\xa9"),
    Signature("a member of an md array: scan the array", 4096, b"\xfc\x4e\x2b\xa9"),
    Signature("xfs", 0, b"XFSB"),
    Signature("btrfs", 0x10040, b"_BHRfS_M"),
    Signature("f2fs", 1024, b"\x10\x20\xf5\xf2"),
    Signature(
        "a backing or cache device of bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"
    ),
    Signature("erofs", 1024, b"\xe2\xe1\xf5\xe0"),
    Signature("squashfs", 0, b"hsqs"),
    Signature("iso9660", 32769, b"CD001"),
    Signature("NTFS", 3, b"NTFS    "),
    Signature("exFAT", 3, b"EXFAT   "),
    Signature("FAT", 82, b"FAT32   "),
    Signature("FAT", 54, b"FAT16   "),
    Signature("FAT", 54, b"FAT12   "),
    Signature(f"a VMDK image: {_RAW}", 0, b"KDMV"),
    Signature(f"a VMDK image: {_RAW}", 0, b"# Disk DescriptorFile"),
    Signature(f"a VDI image: {_RAW}", 64, b"\x7f\x10\xda\xbe"),
    Signature(f"a VHDX image: {_RAW}", 0, b"vhdxfile"),
    Signature(f"a VHD image: {_RAW}", 0, b"conectix"),
    Signature(f"compressed with gzip: {_UNPACK}", 0, b"\x1f\x8b\x08"),
    Signature(f"compressed with xz: {_UNPACK}", 0, b"\xfd7zXZ\0"),
    Signature(f"compressed with zstd: {_UNPACK}", 0, b"\x28\xb5\x2f\xfd"),
    Signature(f"compressed with bzip2: {_UNPACK}", 0, b"BZh"),
)
"""In order of precedence: formats that encrypt or divide a device come before filesystems."""
_IMAGE_ENDINGS = tuple(
    ".img .image .raw .dd .iso .e2i .ext2 .ext3 .ext4 .qcow2 .vmdk .vdi .vhd .vhdx .disk".split()
)
_CONTROL = frozenset(range(32)) - set(b"\t\n\r\f\x1b") | {127}


def is_named_as_image(path: str) -> bool:
    """Return whether a file has the name extension of an image."""
    return path.lower().endswith(_IMAGE_ENDINGS)


def is_text(data: bytes) -> bool:
    """Return whether the beginning of a file is lines of text; the last character may be cut."""
    if not _CONTROL.isdisjoint(data) or b"\n" not in data:
        return False
    for cut in range(4):
        try:
            data[: len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def is_zero(data: bytes) -> bool:
    """Return whether the data consist of zeros only."""
    return not any(data)


INODE_BYTES = 128
"""The size of the part of an inode that every ext filesystem has."""
_MODE, _LINKS = slice(0, 2), slice(26, 28)
_TYPE_BITS, _REGULAR = 0xF000, 0x8000


def check_journal_inode(inode: bytes) -> bool:
    """Return True if an inode can be that of a journal; raise ValueError if no kernel accepts it.

    The kernel rejects deleted inodes and non-files (fs/ext4/super.c, ext4_get_journal_inode()).
    """
    if len(inode) != INODE_BYTES:
        raise ValueError("the image ends before it")
    mode, links = (int.from_bytes(inode[field], "little") for field in (_MODE, _LINKS))
    if not links:
        raise ValueError("the inode of the journal is deleted")
    if mode & _TYPE_BITS != _REGULAR:
        raise ValueError("the inode of the journal is no regular file")
    return True
