"""The filesystems that an image file holds, tested with real ones in every container."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.assemble.devices.target import BadImage, Image, Partition, PlainFile
from ext4audit.assemble.image import find_image, read_image_groups
from ext4audit.assemble.image.host import image_gaps
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import Answer, Source
from ext4audit.sources.live import LiveSource
from support.filesystems.scratch import run
from support.images.mke2fs import needs_e2fsprogs, read_table
from support.images.partitioned import LINUX, SECTOR, boot_record, grow, with_gpt, write_at

pytestmark = needs_e2fsprogs
MIB = 1 << 20
FIRST, SECOND = 2048 * SECTOR, 40960 * SECTOR


def look(path: Path) -> Image | BadImage | PlainFile:
    """Look for filesystems in a file of this machine."""
    return find_image(LiveSource(), str(path))


def labels(path: Path) -> list[tuple[str | None, str]]:
    """Return label and device of the filesystems in an image."""
    image = look(path)
    assert isinstance(image, Image), image
    return [(fs.superblock.value.label, fs.device) for fs in image.filesystems]


def make(image: Path, label: str, *options: str, at: int = 0, size: str = "16M") -> Path:
    """Make a filesystem in a file, starting at a byte offset."""
    where = ("-E", f"offset={at}") if at else ()
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", label, *where, *options, image, size)
    return image


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return a disk with a GPT of two ext4 partitions and an empty one."""
    image = tmp_path / "disk.img"
    grow(image, 120 * MIB)
    with_gpt(image, {1: (2048, 34815), 2: (34816, 36863), 3: (40960, 106495)})
    make(image, "one", at=FIRST)
    return make(image, "three", at=SECOND, size="32M")


def test_a_filesystem_is_an_image_of_itself(tmp_path: Path) -> None:
    """Its device is the file, and the origin names the bytes."""
    path = make(tmp_path / "fs.img", "whole")
    image = look(path)
    assert isinstance(image, Image)
    (fs,) = image.filesystems
    assert (fs.device, fs.start_bytes, fs.partition, image.note) == (str(path), 0, None, "")
    assert fs.superblock.origin == f"superblock at byte 1024 of {path}"


def test_every_partition_with_a_filesystem_is_one(disk: Path) -> None:
    """The device is spelled as e2fsprogs accepts it; the empty partition is left out."""
    assert labels(disk) == [("one", f"{disk}?offset=1048576"), ("three", f"{disk}?offset=20971520")]
    image = look(disk)
    assert isinstance(image, Image)
    assert image.filesystems[1].partition == Partition(3, SECOND, 32 * MIB)


def test_e2fsprogs_reads_the_device_as_it_is_spelled(disk: Path) -> None:
    """The printed device can be pasted after dumpe2fs."""
    assert "Filesystem volume name:   three" in run("dumpe2fs", "-h", labels(disk)[1][1])


def test_a_name_that_begins_with_a_dash_is_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed device then begins with ./ and can be pasted as well."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "-o.img", "dash")
    assert labels(Path("-o.img")) == [("dash", "./-o.img")]


def test_a_partition_of_an_mbr_may_have_any_type(tmp_path: Path) -> None:
    """The content of a partition counts, not its type in the table."""
    image = tmp_path / "disk.img"
    grow(image, 64 * MIB)
    write_at(image, {0: boot_record((0x07, 2048, 32768))})
    make(image, "ntfs?", at=FIRST)
    assert labels(image) == [("ntfs?", f"{image}?offset=1048576")]


def test_a_filesystem_at_the_beginning_hides_what_its_boot_sector_says(tmp_path: Path) -> None:
    """The first 1024 bytes of a filesystem belong to its boot loader and may hold a table."""
    image = make(tmp_path / "fs.img", "whole")
    write_at(image, {0: boot_record((LINUX, 2048, 32768))})
    assert labels(image) == [("whole", str(image))]


@pytest.mark.parametrize("block_bytes", ["1024", "4096"])
def test_a_file_of_e2image_is_read_where_its_header_says(tmp_path: Path, block_bytes: str) -> None:
    """With 1 KiB blocks its copy of the superblock is at the same offset as in a filesystem."""
    image = make(tmp_path / "fs.img", "copied", "-b", block_bytes, size="64M")
    run("e2image", image, tmp_path / "copy.e2i")
    found = look(tmp_path / "copy.e2i")
    assert isinstance(found, Image)
    (fs,) = found.filesystems
    assert fs.superblock.value.label == "copied"
    groups = read_image_groups(LiveSource(), fs)
    assert isinstance(groups, Known)
    table = read_table(image)
    assert list(groups.value.inode_tables) == list(table.inode_tables)


def test_a_raw_file_of_e2image_is_a_filesystem(tmp_path: Path) -> None:
    """`e2image -r` keeps every block at its offset."""
    image = make(tmp_path / "fs.img", "raw")
    run("e2image", "-r", image, tmp_path / "fs.raw")
    assert labels(tmp_path / "fs.raw") == [("raw", f"{tmp_path}/fs.raw")]


def test_groups_of_a_partition_are_counted_from_its_start(disk: Path) -> None:
    """Block numbers are relative to the filesystem's start."""
    image = look(disk)
    assert isinstance(image, Image)
    groups = read_image_groups(LiveSource(), image.filesystems[1])
    assert isinstance(groups, Known)
    with disk.open("rb") as source, (disk.parent / "part").open("wb") as copy:
        source.seek(SECOND)
        shutil.copyfileobj(source, copy)
    assert list(groups.value.block_bitmaps) == list(read_table(disk.parent / "part").block_bitmaps)


def test_a_qcow2_file_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    """It is recognized as an image, so the filesystem that holds the file is not audited."""
    make(tmp_path / "fs.img", "q")
    run("e2image", "-Q", tmp_path / "fs.img", tmp_path / "fs.qcow2")
    bad = look(tmp_path / "fs.qcow2")
    assert isinstance(bad, BadImage)
    assert "QCOW2" in bad.reason
    assert "e2image -r" in bad.reason


def test_a_damaged_superblock_is_reported_and_not_audited(tmp_path: Path) -> None:
    """It cannot be trusted, but the filesystem that holds the file is not audited instead."""
    image = make(tmp_path / "fs.img", "whole")
    write_at(image, {1024 + 0x78: b"W"})
    assert look(image) == BadImage(
        "the checksum of its superblock is wrong; a backup can be read, block 8193 of 1024 bytes "
        "(repair a copy with e2fsck -b 8193 -B 1024)"
    )


def test_a_damaged_partition_is_reported_beside_the_others(disk: Path) -> None:
    """The note names it."""
    write_at(disk, {FIRST + 1024 + 0x78: b"W"})
    assert labels(disk) == [("three", f"{disk}?offset=20971520")]
    image = look(disk)
    assert isinstance(image, Image)
    assert image.note == "partition 1: the checksum of its superblock is wrong"


def test_an_image_whose_only_filesystem_is_damaged_is_bad(tmp_path: Path) -> None:
    """No filesystem is left to audit."""
    image = tmp_path / "disk.img"
    grow(image, 64 * MIB)
    write_at(image, {0: boot_record((LINUX, 2048, 32768))})
    make(image, "x", at=FIRST)
    write_at(image, {FIRST + 1024 + 0x78: b"W"})
    assert look(image) == BadImage("partition 1: the checksum of its superblock is wrong")


@pytest.mark.parametrize("kept", [MIB, 16 * MIB - 1])
def test_truncated_image_is_audited_and_reported(tmp_path: Path, kept: int) -> None:
    """An interrupted copy still has a whole superblock."""
    image = make(tmp_path / "fs.img", "cut")
    grow(image, kept)
    found = look(image)
    assert isinstance(found, Image)
    assert found.note == "the image is cut short: its filesystem has 16777216 bytes"
    gaps = [gap.what for gap in image_gaps(LiveSource(), found.filesystems)]
    assert gaps[0] == f"end of {image}"


def test_a_partition_that_is_cut_short_is_named(disk: Path) -> None:
    """The other partition is complete."""
    grow(disk, 40 * MIB)
    found = look(disk)
    assert isinstance(found, Image)
    assert found.note == "partition 3 is cut short: its filesystem has 33554432 bytes"


def test_a_partition_that_the_image_ends_before_is_a_gap(disk: Path) -> None:
    """It may hold a filesystem, so the audit of the other one is not complete."""
    grow(disk, SECOND + 1500)
    found = look(disk)
    assert isinstance(found, Image)
    assert [fs.superblock.value.label for fs in found.filesystems] == ["one"]
    assert found.note == "partition 3: the image ends before it"
    assert found.gaps == (
        Unknown(
            "partition 3", Why.UNPARSABLE, "the image ends before it", hint="copy the whole disk"
        ),
    )


def test_a_partition_whose_superblock_is_damaged_is_a_gap(disk: Path) -> None:
    """The other one is audited, but the audit is not complete."""
    write_at(disk, {SECOND + 1024 + 0x150: b"damaged"})
    found = look(disk)
    assert isinstance(found, Image)
    assert [gap.what for gap in found.gaps] == ["partition 3"]


def test_what_an_extended_partition_holds_is_a_gap_where_its_records_are_missing(
    tmp_path: Path,
) -> None:
    """Each logical partition is preceded by its record, and the image ends before one of them."""
    image = tmp_path / "disk.img"
    grow(image, 20 * MIB)
    make(image, "one", at=FIRST)
    write_at(image, {0: boot_record((LINUX, 2048, 32768), (0x05, 40960, 20480))})
    found = look(image)
    assert isinstance(found, Image)
    assert [gap.what for gap in found.gaps] == ["partition 5"]


def _magic_only(path: Path) -> None:
    write_at(path, {1024 + 0x38: b"\x53\xef", 1024 + 0x18: b"\xff\xff\xff\xff"})


def _empty_partitions(path: Path) -> None:
    write_at(path, {0: boot_record((LINUX, 1, 1), (LINUX, 2, 1))})


@pytest.mark.parametrize(
    ("spoil", "note"),
    [
        (lambda path: grow(path, 0), ""),
        (lambda path: path.write_bytes(b"x" * 511), ""),
        (lambda path: path.write_bytes(bytes(range(256)) * 16), ""),
        (lambda path: path.write_bytes(b"a line of text\n" * 10000), ""),
        (lambda path: path.write_bytes("Umlaute: \u00e4\u00f6\u00fc\n".encode() * 10000), ""),
        (_magic_only, ""),
    ],
    ids=["empty", "short", "garbage", "text", "UTF-8", "magic only"],
)
def test_anything_else_is_a_plain_file(tmp_path: Path, spoil: object, note: str) -> None:
    """A file that does not resemble an image gets no note."""
    path = tmp_path / "file"
    path.touch()
    assert callable(spoil)
    spoil(path)
    assert look(path) == PlainFile(note)


def test_a_disk_without_a_filesystem_is_bad(tmp_path: Path) -> None:
    """Recognized contents of its partitions are reported."""
    path = tmp_path / "disk"
    grow(path, 4 * MIB)
    write_at(path, {0: boot_record((LINUX, 8, 8), (LINUX, 2048, 2048)), MIB: b"XFSB"})
    assert look(path) == BadImage(
        "no ext2, ext3 or ext4 in its partitions (2); partition 2: no ext2, ext3 or ext4: xfs"
    )


def test_a_zeroed_partition_with_backups_is_reported_beside_the_others(disk: Path) -> None:
    """Empty partitions and those of another kind are not reported."""
    write_at(disk, {FIRST + 1024: bytes(1024), 34816 * SECTOR: b"LUKS\xba\xbe"})
    image = look(disk)
    assert isinstance(image, Image)
    assert image.note.startswith("partition 1: its superblock is zeroed; a backup can be read, ")


@pytest.mark.parametrize(
    ("superblock_at", "reason"),
    [(0, "without a superblock"), (1 << 31, "without a superblock")],
)
def test_an_e2image_file_that_was_interrupted_is_bad(
    tmp_path: Path, superblock_at: int, reason: str
) -> None:
    """Its header is present, but the data that it points to is missing."""
    data = bytearray(b"\x10\xb7\x2b\x7fExt2 Image 1.0\0".ljust(1024, b"\0"))
    struct.pack_into("<I", data, 0xCC, 4096)
    struct.pack_into("<I", data, 0x11C, superblock_at)
    path = tmp_path / "file"
    path.write_bytes(data)
    bad = look(path)
    assert isinstance(bad, BadImage)
    assert reason in bad.reason


class Bytes(Source):
    """A source that serves ReadBytes from memory, as the live source does from a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked = 0

    def answer(self, ask: Any) -> Answer:
        """Return all the requested bytes, or Unknown."""
        self.asked += 1
        found = self.data[ask.offset_bytes : ask.offset_bytes + ask.length_bytes]
        if len(found) < ask.length_bytes:
            return Unknown("bytes", Why.FAILED, "fewer are there")
        return Known(found, "memory")


@pytest.fixture(scope="module")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return the first bytes of a filesystem, an e2image copy, and disks of both kinds."""
    folder = tmp_path_factory.mktemp("images")
    whole = make(folder / "fs.img", "whole", "-b", "1024")
    run("e2image", whole, folder / "copy")
    gpt, mbr = folder / "gpt", folder / "mbr"
    for image in (gpt, mbr):
        grow(image, 2 * MIB)
    with_gpt(gpt, {1: (64, 127)})
    logical = {63 * SECTOR: boot_record((LINUX, 1, 64), (0x05, 9, 9))}
    write_at(mbr, {0: boot_record((LINUX, 64, 8), (0x05, 63, 99)), **logical})
    superblock = whole.read_bytes()[1024:2048]
    for image in (gpt, mbr):
        write_at(image, {64 * SECTOR + 1024: superblock})
    return [path.read_bytes()[: 48 << 10] for path in (whole, folder / "copy", gpt, mbr)]


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 3200), st.binary(min_size=1, max_size=8)), max_size=6),
    st.integers(0, 48 << 10),
)
def test_any_damage_gives_one_of_three_results(
    beginnings: list[bytes], which: int, changes: list[tuple[int, bytes]], kept: int
) -> None:
    """No input makes the search raise or loop."""
    data = bytearray(beginnings[which])
    for offset, change in changes:
        data[offset : offset + len(change)] = change
    for length in (len(data), kept):
        source = Bytes(bytes(data[:length]))
        found = find_image(source, "image")
        assert isinstance(found, Image | BadImage | PlainFile)
        assert source.asked < 1100


def test_undamaged_samples_are_images(beginnings: list[bytes]) -> None:
    """Otherwise the property above would prove nothing."""
    assert [type(find_image(Bytes(data), "image")) for data in beginnings] == [Image] * 4


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (None, None),
        ("clri <8>", "is deleted"),
        ("sif <8> links_count 0", "is deleted"),
        ("sif <8> mode 040755", "is no regular file"),
    ],
    ids=["whole", "cleared", "no link", "a directory"],
)
@pytest.mark.parametrize("block_bytes", ["1024", "4096"])
def test_a_journal_without_its_inode_is_a_gap(
    tmp_path: Path, block_bytes: str, change: str | None, complaint: str | None
) -> None:
    """The journal's blocks are intact, and the superblock has a copy of their places."""
    path = make(tmp_path / "fs.img", "x", "-b", block_bytes, "-O", "has_journal", size="64M")
    if change is not None:
        run("debugfs", "-w", "-R", change, path)
    image = look(path)
    assert isinstance(image, Image)
    gaps = image_gaps(LiveSource(), image.filesystems)
    assert [gap.detail for gap in gaps] == (
        [] if complaint is None else [f"the inode of the journal {complaint}"]
    )
