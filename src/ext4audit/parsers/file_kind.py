"""What a file or partition holds that is no ext2, ext3 or ext4, by its magic numbers.

Sources: libblkid/src/superblocks and partitions of util-linux 2.41 for LUKS, LVM, swap, md and the
filesystems; docs/interop/qcow2.rst and block/{vdi,vhdx,vpc,vmdk}.c of QEMU 9 for the images of
virtual machines; RFC 1952, RFC 8878 and the specification of xz for compressed files.
"""

from __future__ import annotations

from typing import NamedTuple


class Signature(NamedTuple):
    """A magic number, where it stands, and the kind of content that begins so."""

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
"""In the order of precedence: what encrypts or divides a device comes before filesystems."""
_IMAGE_ENDINGS = tuple(
    ".img .image .raw .dd .iso .e2i .ext2 .ext3 .ext4 .qcow2 .vmdk .vdi .vhd .vhdx .disk".split()
)
_CONTROL = frozenset(range(32)) - set(b"\t\n\r\f\x1b") | {127}


def is_named_as_image(path: str) -> bool:
    """Whether the name of a file says that it is an image."""
    return path.lower().endswith(_IMAGE_ENDINGS)


def is_text(data: bytes) -> bool:
    """Whether the beginning of a file is lines of text; its last character may be cut."""
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
    """Whether nothing but zeros is there."""
    return not any(data)
