from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.parsers.dumpe2fs import parse_superblock
from ext4audit.parsers.superblock import (
    crc32c,
    damage_of,
    parse_backup_superblock,
    parse_first_extent,
    parse_image_superblock,
    parse_raw_superblock,
)
from support.filesystems.scratch import run
from support.images.mke2fs import needs_e2fsprogs

UUID = bytes(range(1, 17))
UUID_TEXT = "01020304-0506-0708-090a-0b0c0d0e0f10"
Field = tuple[int, str, int | bytes]

# Documentation/filesystems/ext4/super.rst: offset, format, value.
FIELDS: tuple[Field, ...] = (
    (0x50, "H", 1001),
    (0x52, "H", 1002),
    (0x0, "I", 6553600),
    (0x4, "I", 0x10),
    (0x8, "I", 0x20),
    (0xC, "I", 0x30),
    (0x10, "I", 6553000),
    (0x18, "I", 2),
    (0x1C, "I", 4),
    (0x20, "I", 131072),
    (0x28, "I", 8192),
    (0x2C, "I", 100),
    (0x30, "I", 200),
    (0x34, "H", 7),
    (0x36, "H", 0xFFFF),
    (0x38, "H", 0xEF53),
    (0x3A, "H", 3),
    (0x3C, "H", 3),
    (0x40, "I", 300),
    (0x44, "I", 86400),
    (0x48, "I", 1),
    (0x4C, "I", 1),
    (0x54, "I", 11),
    (0x58, "H", 256),
    (0x5C, "I", 0x4),
    (0x60, "I", 0x80),
    (0x64, "I", 0x201),
    (0x68, "16s", UUID),
    (0x78, "16s", b"sixteen letters!"),
    (0x88, "64s", b"/srv/\xff\n"),
    (0xCE, "H", 512),
    (0xD0, "16s", UUID),
    (0xE0, "I", 8),
    (0xE4, "I", 0x801),
    (0xFC, "B", 1),
    (0xFD, "B", 1),
    (0xFE, "H", 64),
    (0x100, "I", 0x10C),
    (0x104, "I", 3),
    (0x108, "I", 400),
    (0x148, "I", 1),
    (0x14C, "I", 2),
    (0x150, "I", 1),
    (0x154, "I", 2),
    (0x158, "I", 3),
    (0x160, "I", 1),
    (0x164, "H", 128),
    (0x170, "I", 1536),
    (0x174, "B", 4),
    (0x178, "Q", 123456789),
    (0x194, "I", 9),
    (0x198, "I", 500),
    (0x19C, "I", 12),
    (0x1A0, "Q", 1 << 40),
    (0x1A8, "32s", b"ext4_lookup"),
    (0x1C8, "I", 1847),
    (0x1CC, "I", 600),
    (0x1D0, "I", 13),
    (0x1D4, "I", 42),
    (0x1D8, "Q", 99),
    (0x1E0, "32s", b"an_error_in_thirty_two_letters!!"),
    (0x200, "64s", b"commit=30"),
    (0x24C, "I", 0),
    (0x250, "I", 77),
    (0x276, "B", 1),
)
EXPECTED = Superblock(
    default_mount_options=("user_xattr", "acl", "nobarrier"),
    mount_option_string="commit=30",
    features=frozenset({"has_journal", "64bit", "sparse_super", "bigalloc"}),
    errors="panic",
    stride_blocks=128,
    stripe_width_blocks=1536,
    size_blocks=0x1_0000_0010,
    uuid=UUID_TEXT,
    label="sixteen letters!",
    block_bytes=4096,
    first_block=0,
    blocks_per_group=131072,
    inodes_per_group=8192,
    inode_bytes=256,
    inode_count=6553600,
    flex_bg_groups=16,
    cluster_blocks=4,
    journal_bytes=0x1_0000_0002,
    state="clean with errors",
    descriptor_bytes=64,
    reserved_gdt_blocks=512,
    first_meta_bg=3,
    backup_bgs=(77,),
    reserved_blocks=0x2_0000_0020,
    free_blocks=0x3_0000_0030,
    free_inodes=6553000,
    revision=1,
    max_mount_count=-1,
    check_interval_seconds=86400,
    last_mounted_at=100,
    last_checked_at=300,
    journal_inode=8,
    journal_device=0x801,
    journal_uuid=UUID_TEXT,
    error_count=9,
    first_error=RecordedError(500, "ext4_lookup", 1847, 12, 1 << 40),
    last_error=RecordedError(600, "an_error_in_thirty_two_letters!!", 42, 13, 99),
    reserved_uid=1001,
    reserved_gid=1002,
)


def raw(*changes: Field) -> bytes:
    """Return a superblock with the fields above, some of them changed."""
    data = bytearray(1024)
    for offset, form, value in (*FIELDS, *changes):
        struct.pack_into("<" + form, data, offset, value)
    return bytes(data)


def test_every_field_is_read_from_its_offset() -> None:
    """All values are literal and different, so that a field read from a wrong offset is noticed."""
    assert parse_raw_superblock(raw()) == EXPECTED


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        # Without 64bit the upper halves and the size of descriptors are not used.
        ([(0x60, "I", 0)], "size_blocks", 0x10),
        ([(0x60, "I", 0)], "reserved_blocks", 0x20),
        ([(0x60, "I", 0)], "free_blocks", 0x30),
        ([(0x60, "I", 0)], "descriptor_bytes", 32),
        ([(0x64, "I", 0)], "cluster_blocks", 1),
        ([(0x4C, "I", 0)], "inode_bytes", 128),
        ([(0x68, "16s", bytes(16))], "uuid", None),
        ([(0x78, "16s", b"")], "label", None),
        ([(0x78, "16s", b"<none>")], "label", "<none>"),
        ([(0xFD, "B", 0)], "journal_bytes", None),
        ([(0x5C, "I", 0)], "journal_bytes", None),
        ([(0xE0, "I", 0)], "journal_bytes", None),
        ([(0x174, "B", 0)], "flex_bg_groups", 1),
        ([(0x2C, "I", 0)], "last_mounted_at", None),
        ([(0x198, "I", 0)], "first_error", None),
        ([(0x24C, "I", 1)], "backup_bgs", (1, 77)),
        ([(0x3C, "H", 9)], "errors", "remount-ro"),
        ([(0x18, "I", 0), (0x1C, "I", 0), (0x14, "I", 1)], "block_bytes", 1024),
        ([(0x18, "I", 6), (0x1C, "I", 6)], "block_bytes", 65536),
    ],
)
def test_features_and_revision_decide_the_meaning_of_a_field(
    changes: list[Field], field: str, value: object
) -> None:
    """The meaning of a field may depend on the features and on the revision."""
    assert getattr(parse_raw_superblock(raw(*changes)), field) == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((0x38, "H", 0), "magic number is 0x0000"),
        ((0x18, "I", 7), r"blocks of 2\^7 KiB"),
        ((0x20, "I", 0), "no blocks in a group"),
        ((0xFE, "H", 0), "group descriptors of 0 bytes"),
        ((0xFE, "H", 96), "group descriptors of 96 bytes"),
        ((0xFE, "H", 8192), "group descriptors of 8192 bytes"),
        ((0x1C, "I", 1), r"clusters of 2\^1 KiB"),
        ((0x1C, "I", 0xFFFFFFFF), "clusters of"),
        ((0x174, "B", 32), r"flex groups of 2\^32"),
    ],
)
def test_impossible_values_are_refused(change: Field, message: str) -> None:
    """A damaged superblock is refused, not read as something enormous."""
    with pytest.raises(ValueError, match=message):
        parse_raw_superblock(raw(change))


@pytest.mark.parametrize("length", [0, 1023, 1025])
def test_another_length_is_refused(length: int) -> None:
    """A superblock has 1024 bytes."""
    with pytest.raises(ValueError, match="instead of 1024"):
        parse_raw_superblock(bytes(length))


@given(st.binary(min_size=1024, max_size=1024))
def test_any_bytes_with_the_magic_number_are_parsed_or_refused(data: bytes) -> None:
    """The parser raises nothing but ValueError."""
    data = data[:0x38] + b"\x53\xef" + data[0x3A:]
    try:
        superblock = parse_raw_superblock(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
    else:
        assert superblock.block_bytes in {1024 << power for power in range(7)}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a filesystem without checksums, so that any field can be changed."""
    path = tmp_path_factory.mktemp("raw") / "image"
    with path.open("wb") as file:
        file.truncate(16 << 20)
    options = ["-O", "^metadata_csum,^uninit_bg", "-L", "lab"]
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *options, path], check=True)
    return path


@needs_e2fsprogs
@pytest.mark.parametrize(
    "change",
    [
        *((0x48, "I", number) for number in (0, 1, 2, 3, 4, 5, 77)),
        *((0xFC, "B", number) for number in (0, 1, 2, 3, 6, 200)),
        *((0x160, "I", word) for word in (0, 1, 2, 4, 8, 0x77, 0x88)),
        *((0x3A, "H", word) for word in (0, 1, 2, 3, 4, 7)),
        *((0x36, "H", number) for number in (0, 20, 0x7FFF, 0x8000, 0xFFFF)),
        *((0x44, "I", seconds) for seconds in (1, 60, 86400, 99999, 0xFFFFFFFF)),
        *((0x108, "I", second) for second in (0, 1, 0xFFFFFFFF)),
        *((0x100, "I", 1 << bit) for bit in range(32)),
        (0x3C, "H", 2),
        (0x3C, "H", 3),
        (0x3C, "H", 0),
        (0x24C, "Q", 5),
        (0x24C, "Q", 5 << 32),
        (0x24C, "Q", 5 << 32 | 3),
        (0x104, "I", 0),
        (0xE4, "I", 0x801),
        (0xD0, "16s", UUID),
        (0x68, "16s", bytes(16)),
        (0x88, "64s", b"/mnt/\xff\n[/red]\x1b" + b"x" * 52),
        (0x78, "16s", b"\nBlock size: 1\xff\xff"),
        (0x200, "64s", b"nobarrier,commit=1"),
        (0x178, "Q", 8191),
        (0x164, "H", 65535),
    ],
)
def test_dumpe2fs_names_every_value_the_same(image: Path, change: Field) -> None:
    """Each number has the name that dumpe2fs prints, or no name if it prints none."""
    offset, form, value = change
    data = bytearray(image.read_bytes()[1024:2048])
    before = bytes(data)
    struct.pack_into("<" + form, data, offset, value)
    try:
        write_superblock(image, bytes(data))
        text = subprocess.run(
            ["dumpe2fs", "-h", image],
            capture_output=True,
            check=True,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC0"},
        ).stdout
    finally:
        write_superblock(image, before)
    dumped = parse_superblock(text.decode("utf-8", "surrogateescape"))
    raw = parse_raw_superblock(bytes(data))
    # dumpe2fs does not print it
    assert raw._replace(journal_first_block=None) == dumped


def write_superblock(image: Path, data: bytes) -> None:
    """Write a superblock into an image."""
    with image.open("r+b") as file:
        file.seek(1024)
        file.write(data)


def extent_header(*, entries: int = 1, depth: int = 0, first: int = 0) -> bytes:
    """Return i_block of a journal whose extent starts at a block beyond 2^32."""
    header = struct.pack("<HHHHI", 0xF30A, entries, 4, depth, 0)
    return header + struct.pack("<IHHI", first, 32768, 0x1, 0x50)


@pytest.mark.parametrize(
    ("blocks", "kind", "first", "index"),
    [
        (extent_header(), 1, 0x1_0000_0050, None),
        (extent_header(entries=0), 1, None, None),
        (extent_header(depth=1), 1, None, 0x50_0001_8000),
        (extent_header(depth=1, first=7), 1, None, None),
        (extent_header(depth=2), 1, None, None),
        (extent_header(first=7), 1, None, None),
        (struct.pack("<II", 0x60, 0x61), 1, 0x60, None),
        (struct.pack("<II", 0, 0x61), 1, None, None),
        (extent_header(), 0, None, None),
        (extent_header(depth=1), 0, None, None),
    ],
)
def test_the_copy_of_its_inode_says_where_the_journal_begins(
    image: Path, blocks: bytes, kind: int, first: int | None, index: int | None
) -> None:
    """The valid copies are an extent tree of at most two levels, or a block map."""
    data = bytearray(image.read_bytes()[1024:2048])
    struct.pack_into("<I", data, 0x5C, struct.unpack_from("<I", data, 0x5C)[0] | 0x4)
    struct.pack_into("<I", data, 0xE0, 8)
    data[0xFD] = kind
    data[0x10C : 0x10C + len(blocks)] = blocks
    found = parse_raw_superblock(bytes(data))
    assert (found.journal_first_block, found.journal_index_block) == (first, index)


@pytest.mark.parametrize("wrong", [extent_header(depth=1), extent_header(first=7), bytes(24)])
def test_a_block_without_the_inode_copy_has_no_first_extents(wrong: bytes) -> None:
    """The first block of a journal is not guessed."""
    assert parse_first_extent(extent_header()) == 0x1_0000_0050
    with pytest.raises(ValueError, match="not the first extents"):
        parse_first_extent(wrong)


pytestmark = needs_e2fsprogs


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the superblock of a real filesystem with metadata_csum."""
    image = tmp_path_factory.mktemp("image") / "image"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "metadata_csum", image, "16M")
    return image.read_bytes()[1024:2048]


def changed(data: bytes, offset: int, form: str, value: int, *, sealed: bool = True) -> bytes:
    """Return the data with one field changed; `sealed` makes the checksum fit again."""
    copy = bytearray(data)
    struct.pack_into("<" + form, copy, offset, value)
    if sealed:
        struct.pack_into("<I", copy, 0x3FC, crc32c(bytes(copy[:0x3FC])))
    return bytes(copy)


def test_the_checksum_is_the_one_that_dumpe2fs_knows_as_crc32c() -> None:
    """The check value of CRC-32C is e3069283; ext4 leaves out its final inversion."""
    assert crc32c(b"123456789") == 0xE3069283 ^ 0xFFFFFFFF


def test_a_real_superblock_is_accepted(real: bytes) -> None:
    """Its checksum is correct, and its counts are consistent."""
    found = parse_image_superblock(real)
    assert (found.size_blocks, found.block_bytes, found.groups) == (4096, 4096, 1)


@pytest.mark.parametrize(
    "options",
    [
        ["-t", "ext2"],
        ["-t", "ext3", "-b", "1024"],
        ["-t", "ext4", "-O", "^metadata_csum,uninit_bg"],
        ["-t", "ext4", "-O", "bigalloc", "-C", "65536"],
        ["-t", "ext4", "-O", "bigalloc", "-C", "4096", "-b", "1024"],
        ["-t", "ext4", "-O", "meta_bg,^resize_inode", "-b", "1024"],
        ["-t", "ext4", "-O", "^64bit", "-g", "8192", "-N", "3000"],
        ["-t", "ext4", "-r", "0", "-O", "none"],
        ["-t", "ext4", "-O", "mmp"],
        ["-t", "ext2", "-o", "hurd"],
    ],
    ids=" ".join,
)
def test_superblocks_made_by_mke2fs_are_plausible(tmp_path: Path, options: list[str]) -> None:
    """Old revisions, clusters and groups of any size are valid."""
    image = tmp_path / "image"
    run("mke2fs", "-q", "-F", *options, image, "64M")
    with image.open("rb") as file:
        found = parse_image_superblock(file.read(2048)[1024:])
    assert found.size_blocks * (found.block_bytes or 0) == 64 << 20


@pytest.mark.parametrize(
    ("offset", "form", "value", "reason"),
    [
        (0x38, "H", 0xEF54, "the magic number is 0xef54"),
        (0x4, "I", 0, "claims 0 blocks"),
        (0x14, "I", 4096, "claims 4096 blocks"),
        (0x20, "I", 32769, "claims 32769 blocks in a group"),
        (0x28, "I", 0, "claims 4096 inodes"),
        (0x0, "I", 4095, "claims 4095 inodes"),
        (0x60, "I", 0x8 | 0x80, "an external journal"),
        (0x1C, "I", 3, "claims 32768 clusters in a group"),
        (0x24, "I", 32760, "claims 32760 clusters in a group"),
        (0x58, "H", 768, "claims inodes of 768 bytes"),
        (0x58, "H", 64, "claims inodes of 64 bytes"),
        (0x14, "I", 1, "claims that block 1 is the first"),
        (0xCE, "H", 1025, "claims 1025 blocks reserved to grow"),
        (0x54, "I", 10, "claims inode 10 free"),
        (0x4C, "I", 0, "claims revision 0 with inodes of 256 bytes"),
        (0x15E, "H", 132, "claims 132 more bytes of inodes"),
        (0x15C, "H", 132, "claims 132 more bytes of inodes"),
        (0x175, "B", 2, "claims checksums of type 2"),
        (0x48, "I", 1, "claims to be of the Hurd"),
    ],
)
def test_superblocks_that_no_kernel_mounts_are_refused(
    real: bytes, offset: int, form: str, value: int, reason: str
) -> None:
    """All of these have a correct checksum."""
    with pytest.raises(ValueError, match=reason):
        parse_image_superblock(changed(real, offset, form, value))


@pytest.mark.parametrize(
    ("incompat", "reason"),
    [(0x1C0, "a block 0 of mmp"), (0xD0, "meta_bg begins with block 9 of 1 of descriptors")],
)
def test_features_need_their_blocks(real: bytes, incompat: int, reason: str) -> None:
    """Linux 6.18 mounts neither."""
    with_feature = changed(changed(real, 0x104, "I", 9), 0x60, "I", incompat)
    with pytest.raises(ValueError, match=reason):
        parse_image_superblock(with_feature)


def test_a_wrong_checksum_is_damage(real: bytes) -> None:
    """One changed bit of the label is enough."""
    with pytest.raises(ValueError, match="checksum of its superblock is wrong"):
        parse_image_superblock(changed(real, 0x78, "B", 1, sealed=False))


def test_without_metadata_csum_the_checksum_is_not_checked(real: bytes) -> None:
    """The field then holds zeros or any other value."""
    without = changed(real, 0x64, "I", 0x1, sealed=False)
    assert parse_image_superblock(changed(without, 0x3FC, "I", 1, sealed=False)).block_bytes == 4096


def test_damage_is_named_if_there_is_any(real: bytes) -> None:
    """A superblock that no kernel would mount is damaged; another length is not a superblock."""
    assert damage_of(real) == ""
    assert damage_of(bytes(1024)) == "it is zeroed"
    assert damage_of(changed(real, 0x78, "B", 1, sealed=False)).startswith("the checksum")
    with pytest.raises(ValueError, match="1023 bytes"):
        damage_of(real[:-1])


def test_a_backup_superblock_has_its_group_number(real: bytes) -> None:
    """The primary is the one of group 0, and a copy of it elsewhere is no backup."""
    third = changed(real, 0x5A, "H", 3)
    assert parse_backup_superblock(third, (3, 3 * 32768, 4096)).block_bytes == 4096
    with pytest.raises(ValueError, match="groups of 32768 blocks"):
        parse_backup_superblock(third, (3, 32768, 4096))
    for place in ((3, 3 * 32768, 4096), (0, 0, 1024)):
        with pytest.raises(ValueError, match="backup of group 0"):
            parse_backup_superblock(real, place)
