"""Magic numbers of formats other than ext4, and the recognition of text and images."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.disk_image import (
    INODE_BYTES,
    SIGNATURES,
    BootEntry,
    E2imageHeader,
    GptHeader,
    check_journal_inode,
    is_e2image,
    is_named_as_image,
    is_text,
    is_zero,
    parse_boot_record,
    parse_e2image_header,
    parse_gpt_entries,
    parse_gpt_header,
    parse_mbr,
)
from support.filesystems.scratch import run
from support.images.mke2fs import needs_e2fsprogs
from support.images.partitioned import LINUX, boot_record, gpt_entry, gpt_header

FAT_BOOT_SECTOR = b"\xeb\x58\x90mkfs.fat" + b"This is not a bootable disk. " * 18
SCRAMBLED = struct.pack("<Q", 0x4149_5458_4520_4650)


def test_an_mbr_has_four_entries_in_sectors() -> None:
    """Each slot has type, start and size, used or not; a boot flag is valid."""
    data = boot_record((LINUX, 2048, 32768), (0, 0, 0), (0x0F, 40960, 0xFFFFFFFF), status=0x80)
    assert parse_mbr(data) == (
        BootEntry(0x83, 2048, 32768),
        BootEntry(0, 0, 0),
        BootEntry(0x0F, 40960, 4294967295),
        BootEntry(0, 0, 0),
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not end with 55 AA"),
        (boot_record((LINUX, 1, 1))[:-1], "does not end with 55 AA"),
        (bytes(512), "does not end with 55 AA"),
        (FAT_BOOT_SECTOR[:510] + b"\x55\xaa", "without a partition table"),
        (boot_record((LINUX, 1, 1), status=0x41), "without a partition table"),
        (boot_record(), "without a partition table"),
    ],
    ids=["empty", "short", "zeros", "FAT", "code", "no entries"],
)
def test_a_text_that_is_not_an_mbr_is_refused(data: bytes, reason: str) -> None:
    """The signature alone is no proof, since boot sectors of filesystems have it as well."""
    with pytest.raises(ValueError, match=reason):
        parse_mbr(data)


def test_a_boot_record_of_a_logical_partition_may_be_empty_or_odd() -> None:
    """Linux checks only its signature."""
    assert parse_boot_record(boot_record())[0] == BootEntry(0, 0, 0)
    assert parse_boot_record(boot_record((LINUX, 63, 9), status=7))[0] == BootEntry(0x83, 63, 9)


def test_a_gpt_header_has_the_offset_of_its_entries() -> None:
    """It gives their place in blocks, their number and their size."""
    assert parse_gpt_header(gpt_header()) == GptHeader(2, 128, 128)
    odd = gpt_header(entries_at=34, count=1_000_000, entry_bytes=4096)
    assert parse_gpt_header(odd) == GptHeader(34, 1000000, 4096)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"EFI PART", "does not start with EFI PART"),
        (SCRAMBLED.ljust(512, b"\0"), "does not start with EFI PART"),
        (gpt_header(crc=1), "checksum of the GPT header is wrong"),
        (gpt_header(header_bytes=91), "a GPT header of 91 bytes"),
        (gpt_header(header_bytes=0xFFFFFFFF), "a GPT header of 4294967295 bytes"),
        (gpt_header(entry_bytes=0), "GPT entries of 0 bytes"),
        (gpt_header(entry_bytes=127), "GPT entries of 127 bytes"),
        (gpt_header(entry_bytes=8192), "GPT entries of 8192 bytes"),
        (gpt_header(entry_bytes=0x80000000), "GPT entries of 2147483648 bytes"),
    ],
)
def test_a_damaged_gpt_header_is_refused(data: bytes, reason: str) -> None:
    """Implausible sizes are refused even if the checksum was made to fit."""
    with pytest.raises(ValueError, match=reason):
        parse_gpt_header(data)


def test_gpt_entries_keep_their_number_and_both_ends() -> None:
    """Entries that are unused, end before they start or start at block 0 are skipped."""
    entries = (
        gpt_entry(2048, 4095),
        gpt_entry(0, 0, guid=bytes(16)),
        gpt_entry(5000, 4999),
        gpt_entry(0, 10),
        gpt_entry(8192, 8192),
    )
    assert parse_gpt_entries(b"".join(entries), 128) == ((1, 2048, 4095), (5, 8192, 8192))


def test_gpt_entries_can_be_longer_than_usual() -> None:
    """The header's size is used, and a partial entry at the end is ignored."""
    entries = gpt_entry(34, 35, entry_bytes=256) + gpt_entry(36, 2**64 - 1, entry_bytes=256)
    assert parse_gpt_entries(entries + bytes(100), 256) == (
        (1, 34, 35),
        (2, 36, 18446744073709551615),
    )


@given(st.binary(max_size=600) | st.binary(min_size=512, max_size=512))
def test_any_bytes_are_a_table_or_a_value_error(data: bytes) -> None:
    """The parsers raise nothing else."""
    for parse in (parse_mbr, parse_boot_record, parse_gpt_header):
        with suppress(ValueError):
            assert parse(data)
    assert len(parse_gpt_entries(data, 128)) <= 4


def header(block_bytes: int = 4096, superblock_at: int = 4096) -> bytes:
    """Return the first bytes of an e2image file."""
    data = bytearray(304)
    data[:20] = bytes.fromhex("10b72b7f") + b"Ext2 Image 1.0\0\0"
    struct.pack_into("<I", data, 0xCC, block_bytes)
    struct.pack_into("<I", data, 0x11C, superblock_at)
    return bytes(data)


def test_an_e2image_header_has_the_offsets_of_the_copies() -> None:
    """The superblock fills a block, and all descriptors follow it."""
    assert parse_e2image_header(header(1024, 1024)) == E2imageHeader(1024, 2048)
    assert parse_e2image_header(header(65536, 65536)) == E2imageHeader(65536, 131072)


@needs_e2fsprogs
@pytest.mark.parametrize(("block_bytes", "expected"), [(1024, (1024, 2048)), (4096, (4096, 8192))])
def test_a_file_of_the_real_e2image_is_read(
    tmp_path: Path, block_bytes: int, expected: tuple[int, int]
) -> None:
    """The offsets are those of the installed e2image, and the magic number is there."""
    image, copy = tmp_path / "image", tmp_path / "copy"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", str(block_bytes), image, "16M")
    run("e2image", image, copy)
    data = copy.read_bytes()[:10000]
    found = parse_e2image_header(data[:304])
    assert (found.superblock_at_bytes, found.descriptors_at_bytes) == expected
    assert data[expected[0] + 0x38 : expected[0] + 0x3A] == b"\x53\xef"
    with image.open("rb") as file:
        file.seek(2048 if block_bytes == 1024 else 4096)
        assert data[expected[1] : expected[1] + 64] == file.read(64)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no header"),
        (header()[:303], "no header"),
        (b"\0" + header()[1:], "no header"),
        (header(block_bytes=0), "without a superblock"),
        (header(block_bytes=1 << 31), "without a superblock"),
        (header(superblock_at=0), "without a superblock"),
    ],
)
def test_an_e2image_header_without_offsets_is_refused(data: bytes, reason: str) -> None:
    """An interrupted copy has such a header, which e2image writes before everything else."""
    with pytest.raises(ValueError, match=reason):
        parse_e2image_header(data)


def test_the_magic_number_alone_is_not_enough() -> None:
    """Four bytes can be in any file; the text that follows is specific to e2image."""
    assert is_e2image(header()[:512])
    assert not is_e2image(header()[:4] + bytes(508))
    assert not is_e2image(b"")


def kind_at(offset_bytes: int, magic: bytes) -> str:
    """Return the kind recognized by a magic number at this offset."""
    found = [each.kind for each in SIGNATURES if each[1:] == (offset_bytes, magic)]
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("offset_bytes", "magic", "kind"),
    [
        (0, b"LUKS\xba\xbe", "LUKS"),
        (512, b"LABELONE", "an LVM physical volume"),
        (4086, b"SWAPSPACE2", "swap space"),
        (65526, b"SWAPSPACE2", "swap space"),
        (4096, b"\xfc\x4e\x2b\xa9", "a member of an md array"),
        (0, b"XFSB", "xfs"),
        (65600, b"_BHRfS_M", "btrfs"),
        (0, b"KDMV", "a VMDK image"),
        (0, b"\x1f\x8b\x08", "compressed with gzip"),
    ],
)
def test_magic_numbers_are_at_the_offsets_of_the_formats(
    offset_bytes: int, magic: bytes, kind: str
) -> None:
    """The offsets come from the specifications that the module names."""
    assert kind_at(offset_bytes, magic).startswith(kind)


def test_containers_are_recognized_before_their_possible_contents() -> None:
    """An LVM volume can begin with the boot sector of anything."""
    kinds = [each.kind for each in SIGNATURES]
    assert kinds.index(kind_at(512, b"LABELONE")) < kinds.index("xfs") < kinds.index("NTFS")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# a file\nof lines\n", True),
        ("caf\u00e9\n".encode(), True),
        ("x\ncaf\u00e9".encode()[:-1], True),
        (b"no line at all", False),
        (b"nul\0\n", False),
        (b"\xff\xfe\xff\xfe\xff\xfe\n\n", False),
        (b"", False),
    ],
)
def test_text_is_lines_without_control_characters(data: bytes, *, text: bool) -> None:
    """The data may end within a character."""
    assert is_text(data) is text


@pytest.mark.parametrize(
    ("path", "named"), [("/a/Disk.IMG", True), ("x.ext4", True), ("img", False), ("a.ibd", False)]
)
def test_file_extensions_of_images_are_recognized(path: str, *, named: bool) -> None:
    """File extensions of images are recognized in any case."""
    assert is_named_as_image(path) is named


def test_only_zero_bytes_count_as_zeros() -> None:
    """A single other byte makes the data non-zero."""
    assert is_zero(bytes(1024))
    assert not is_zero(bytes(1023) + b"\1")


def inode(mode: int, links: int) -> bytes:
    """Return an inode with i_mode and i_links_count."""
    raw = bytearray(INODE_BYTES)
    raw[0:2], raw[26:28] = mode.to_bytes(2, "little"), links.to_bytes(2, "little")
    return bytes(raw)


def test_a_regular_file_with_a_link_can_be_a_journal() -> None:
    """mke2fs makes such an inode."""
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
def test_an_inode_that_no_kernel_accepts_is_not_a_journal(raw: bytes, reason: str) -> None:
    """The copy in the superblock still looks valid."""
    with pytest.raises(ValueError, match=reason):
        check_journal_inode(raw)
