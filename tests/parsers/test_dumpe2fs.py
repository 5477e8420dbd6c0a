from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.superblock import RecordedError, Superblock
from ext4audit.parsers.dumpe2fs import (
    parse_captured_groups,
    parse_captured_superblock,
    parse_superblock,
)

Stored = Callable[[str], str]
UUID = "4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11"
EXT4 = frozenset(
    "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super "
    "large_file huge_file dir_nlink extra_isize metadata_csum".split()
)
DEFAULT = Superblock(
    default_mount_options=("user_xattr", "acl"),
    mount_option_string="",
    features=EXT4,
    errors="continue",
    stride_blocks=0,
    stripe_width_blocks=0,
    size_blocks=5242880,
    uuid=UUID,
    label=None,
    block_bytes=4096,
    first_block=0,
    blocks_per_group=32768,
    inodes_per_group=8192,
    inode_bytes=256,
    inode_count=1310720,
    flex_bg_groups=16,
    cluster_blocks=1,
    journal_bytes=128 << 20,
    state="clean",
    descriptor_bytes=64,
    reserved_gdt_blocks=1024,
    first_meta_bg=0,
    backup_bgs=(),
    reserved_blocks=262144,
    free_blocks=5116558,
    free_inodes=1310709,
    revision=1,
    max_mount_count=-1,
    check_interval_seconds=0,
    last_mounted_at=None,
    last_checked_at=1767323045,
    journal_inode=8,
    journal_device=None,
    journal_uuid=None,
    error_count=0,
    first_error=None,
    last_error=None,
    reserved_uid=0,
    reserved_gid=0,
)


def test_a_filesystem_with_the_defaults_of_mke2fs_is_parsed(stored: Stored) -> None:
    """All fields of a filesystem made by mke2fs 1.47.0 with its defaults are read."""
    assert parse_superblock(stored("dumpe2fs/1.47.0-default.txt")) == DEFAULT


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "1.42.9-centos7",
            {
                "size_blocks": 261883,
                "journal_bytes": 16 << 20,
                "flex_bg_groups": 16,
                "uuid": "10487788-2839-47be-a8fe-03573fba245c",
            },
        ),
        (
            "1.42.9-android-cust",
            {
                "default_mount_options": (),
                "label": "cust",
                "errors": "remount-ro",
                "flex_bg_groups": 1,
                "journal_bytes": 8 << 20,
            },
        ),
        (
            "1.45.3-ext3",
            {
                "features": frozenset(
                    "has_journal ext_attr resize_inode dir_index filetype needs_recovery "
                    "sparse_super large_file".split()
                ),
                "journal_bytes": 1 << 30,
            },
        ),
        (
            "1.45.4-tune2fs-85tib",
            {
                "size_blocks": 22817013760,
                "stride_blocks": 128,
                "stripe_width_blocks": 1024,
                "inodes_per_group": 512,
                "inode_count": 356515840,
                "journal_bytes": None,
            },
        ),
        (
            "1.47.0-ext2",
            {
                "block_bytes": 1024,
                "first_block": 1,
                "blocks_per_group": 8192,
                "flex_bg_groups": 1,
                "journal_bytes": None,
                "size_blocks": 65536,
                "features": frozenset(
                    "ext_attr resize_inode dir_index filetype sparse_super large_file".split()
                ),
            },
        ),
        ("1.47.0-ext3", {"label": "data", "flex_bg_groups": 1, "journal_bytes": 32 << 20}),
        (
            "1.47.0-bigalloc",
            {
                "cluster_blocks": 16,
                "blocks_per_group": 524288,
                "features": EXT4 | {"bigalloc", "quota"},
            },
        ),
        (
            "1.47.0-sparse-super2",
            {"features": EXT4 - {"resize_inode"} | {"sparse_super2"}},
        ),
        ("1.47.0-no-journal", {"features": EXT4 - {"has_journal", "64bit"}, "journal_bytes": None}),
        ("1.47.0-external-journal", {"features": EXT4, "journal_bytes": None}),
        (
            "1.47.0-revision-0",
            {"features": frozenset(), "inode_bytes": 128, "uuid": UUID, "block_bytes": 1024},
        ),
        (
            "1.47.0-raid0-12",
            {
                "stride_blocks": 128,
                "stripe_width_blocks": 1536,
                "blocks_per_group": 32744,
                "size_blocks": 314376192,
                "journal_bytes": 1 << 30,
            },
        ),
        (
            "1.47.0-mount-options",
            {
                "default_mount_options": (
                    "journal_data_writeback",
                    "user_xattr",
                    "acl",
                    "nobarrier",
                    "nodelalloc",
                ),
                "mount_option_string": "nobarrier,noauto_da_alloc,commit=30",
                "errors": "panic",
                "label": "café 1",
            },
        ),
        ("1.47.0-errors-unknown", {"errors": "remount-ro", "journal_bytes": 4 << 20}),
        ("1.47.0-tune-superblock-ext2", {"state": "not clean"}),
    ],
)
def test_distinctive_fields_are_read_from_every_version(
    stored: Stored, name: str, fields: dict[str, object]
) -> None:
    """The distinctive fields of each filesystem are read from every version's text."""
    superblock = parse_superblock(stored(f"dumpe2fs/{name}.txt"))
    assert {field: getattr(superblock, field) for field in fields} == fields


def test_feature_bits_unknown_to_older_dumpe2fs_are_named(stored: Stored) -> None:
    """e2fsprogs names fast_commit since 1.46, and orphan_file since 1.47."""
    text = stored("dumpe2fs/1.47.0-default.txt")
    numbers = "FEATURE_C10 FEATURE_C12 FEATURE_R16 FEATURE_I31"
    text = text.replace("has_journal", f"has_journal {numbers}")
    text = text.replace("user_xattr acl", "user_xattr acl MNTOPT_8 MNTOPT_31")
    found = parse_superblock(text)
    extra = {"fast_commit", "orphan_file", "orphan_present", "FEATURE_I31"}
    assert found.features == DEFAULT.features | extra
    assert found.default_mount_options == ("user_xattr", "acl", "nobarrier", "MNTOPT_31")


def test_hostile_names_cannot_forge_a_field(stored: Stored) -> None:
    """Labels and mount points that contain lines of dumpe2fs are read as text."""
    superblock = parse_superblock(stored("dumpe2fs/1.47.0-hostile-names.txt"))
    assert superblock == superblock._replace(
        label="x\nBlock size: 1",
        default_mount_options=("user_xattr", "acl"),
        block_bytes=1024,
        errors="remount-ro",
        size_blocks=262144,
    )


def _text(label: str, last_mounted_on: str, string: str) -> str:
    """Return a superblock as list_super2() prints it, with raw strings."""
    return (
        f"Filesystem volume name:   {label}\n"
        f"Last mounted on:          {last_mounted_on}\n"
        f"Filesystem UUID:          {UUID}\n"
        "Filesystem magic number:  0xEF53\n"
        "Filesystem revision #:    1 (dynamic)\n"
        "Filesystem features:      has_journal\n"
        "Filesystem flags:         signed_directory_hash \n"
        "Default mount options:    user_xattr acl\n"
        f"Mount options:            {string}\n"
        "Filesystem state:         clean\n"
        "Errors behavior:          Continue\n"
        "Filesystem OS type:       Linux\n"
        "Inode count:              16\nBlock count:              4096\n"
        "First block:              0\nBlock size:               4096\n"
        "Blocks per group:         32768\nInodes per group:         16\n"
        "Inode size:\t          256\n"
        "Journal size:             4096k\n"
        "First error function:     x\nJournal size:             1G\n"
        "Journal features:         (none)\nJournal size:             8M\n"
    )


FORGERIES = [
    "\nErrors behavior:          Panic",
    "\nFilesystem state:         clean\nErrors behavior:          Panic",
    "\nFilesystem UUID:          <none>",
    "\nFilesystem magic number:  0xEF53\nBlock size: 1",
    "\nDefault mount options:    nobarrier\nMount options:            x",
    "\nMount options:            nobarrier",
    "\nBlock size:               1",
    "\nLast mounted on:          /x",
    "\x85\u2028\x1b[31m",
    "\n",
]
STRINGS = st.one_of(
    st.sampled_from(FORGERIES),
    st.text(alphabet=st.characters(max_codepoint=0x2100), min_size=1),
    st.text(alphabet="\n:x ", min_size=1),
)


def _field(size: int) -> st.SearchStrategy[str]:
    """Draw a string that fits a field of this size, as dumpe2fs prints it: up to a NUL."""
    return STRINGS.map(
        lambda text: ("/" + text).partition("\0")[0].encode()[:size].decode("utf-8", "ignore")
    )


@given(label=_field(16), last_mounted_on=_field(64), string=_field(64))
def test_a_string_cannot_forge_another_field(label: str, last_mounted_on: str, string: str) -> None:
    """Whatever the raw strings contain, those that are read are complete; fields are correct."""
    superblock = parse_superblock(_text(label, last_mounted_on, string))
    assert superblock.label == label
    assert superblock.mount_option_string == string
    assert superblock.default_mount_options == ("user_xattr", "acl")
    assert (superblock.errors, superblock.state) == ("continue", "clean")
    assert (superblock.uuid, superblock.block_bytes) == (UUID, 4096)
    assert superblock.journal_bytes == 8 << 20


def test_obfuscated_names_may_be_longer_than_their_fields() -> None:
    """`sos clean` and Insights replace host and user names, also in labels and paths."""
    label, place = "host0.obfuscateddomain0.com", f"/srv/{'obfuscateduser12/' * 6}data"
    superblock = parse_superblock(_text(label, place, "nobarrier"))
    assert superblock.label == label
    assert superblock.mount_option_string == "nobarrier"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Filesystem volume name:", "文件系统卷名:"),
        ("Block count:              5242880\n", ""),
        ("Inode size:\t          256\n", ""),
        ("Block count:              5242880", "Block count:              many"),
        ("Block size:               4096", "Block size:               0"),
        ("Blocks per group:         32768", "Blocks per group:         0"),
        ("Errors behavior:          Continue", "Errors behavior:          Weep"),
        ("Total journal size:       128M", "Total journal size:       big"),
        ("Filesystem OS type:", "OS:"),
        ("metadata_csum", "metadata\0\0\0\0\0"),
        (UUID, "not a uuid"),
    ],
)
def test_a_text_that_is_not_a_header_is_refused(stored: Stored, old: str, new: str) -> None:
    """A translated, truncated or implausible header raises ValueError and is not read in part."""
    text = stored("dumpe2fs/1.47.0-default.txt")
    assert old in text
    with pytest.raises(ValueError, match=r"superblock|number| is 0|errors|journal"):
        parse_superblock(text.replace(old, new))


ERRORS = """\
Journal inode:            8
FS Error count:           3
First error time:         Thu Jan  2 03:04:05 2020
First error function:     {first}
First error line #:       7
First error inode #:      12
First error block #:      99
First error err:          EFSCORRUPTED
Last error time:          Sat Jan  2 03:04:05 2021
Last error function:      {last}
Last error line #:        8
Last error err:           UNKNOWN_ERRCODE_99
Journal features:         (none)
Total journal size:       4096k
"""


@pytest.mark.parametrize("first", ["ext4_lookup", "x\nFirst error line #:       5", "", "\n\n"])
@pytest.mark.parametrize(
    "last", ["ext4_iget", "x\nTotal journal size:    1G", "Last error line #: 1"]
)
def test_recorded_errors_are_read(first: str, last: str) -> None:
    """The first and the last error are read, whatever the raw function names contain."""
    text = _text("x", "/x", "x").partition("Journal size")[0] + ERRORS.format(
        first=first, last=last
    )
    superblock = parse_superblock(text)
    assert superblock.error_count == 3
    assert superblock.first_error == RecordedError(1577934245, first, 7, 12, 99)
    assert superblock.last_error == RecordedError(1609556645, last, 8, 0, 0)
    assert superblock.journal_bytes == 4 << 20


def test_an_error_cannot_forge_a_journal() -> None:
    """Without a journal its size is not printed, and a function's name cannot supply it."""
    text = (
        _text("x", "/x", "x").partition("Journal size")[0]
        + ERRORS.format(first="x\nTotal journal size: 1G", last="x\nJournal size: 1G").partition(
            "Journal features"
        )[0]
    )
    assert parse_superblock(text).journal_bytes is None


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """The parser raises nothing but ValueError, even for garbage after a valid beginning."""
    beginning = _text("x", "/x", "x").partition("Inode count")[0]
    for candidate in (text, beginning + text):
        with pytest.raises(ValueError, match="superblock"):
            parse_superblock(candidate)


OLD = "dumpe2fs/1.42.9-centos7-groups.txt"
NEW_GROUPS = """

Group 0: (Blocks 0-4095) csum 0x6fe3 [ITABLE_ZEROED]
  Primary superblock at 0, Group descriptors at 1-1
  Reserved GDT blocks at 2-600
  Block bitmap at 601 (+601), csum 0xff5bf545
  Inode bitmap at 617 (+617), csum 0x141e2979
  Inode table at 633-696 (+633)
  2433 free blocks, 1013 free inodes, 2 directories, 1013 unused inodes
  Free blocks: 1663-4095
  Free inodes: 12-1024
Group 1: (Blocks 4096-8191) csum 0xf8fc [INODE_UNINIT, BLOCK_UNINIT, ITABLE_ZEROED]
  Backup superblock at 4096, Group descriptors at 4097-4097
  Block bitmap at 602 (bg #0 + 602), csum 0x00000000
  Inode bitmap at 618 (bg #0 + 618), csum 0x00000000
  Inode table at 697-760 (bg #0 + 697)
  3495 free blocks, 1024 free inodes, 0 directories, 1024 unused inodes
"""


@pytest.fixture
def new(stored: Stored) -> str:
    """Return the full text of e2fsprogs 1.47."""
    return stored("dumpe2fs/1.47.0-default.txt") + NEW_GROUPS


def test_both_bitmaps_may_be_on_one_line(stored: Stored) -> None:
    """e2fsprogs 1.42 prints the bitmaps of a group on one line."""
    table = parse_captured_groups(stored(OLD))
    assert list(table.block_bitmaps) == [129, 130, 131]
    assert list(table.inode_bitmaps) == [145, 146, 147]
    assert list(table.inode_tables) == [161, 673, 1185]


def test_each_bitmap_may_have_its_own_line(new: str) -> None:
    """Since 1.43 each bitmap has a line, with its checksum."""
    table = parse_captured_groups(new)
    assert list(table.block_bitmaps) == [601, 602]
    assert list(table.inode_bitmaps) == [617, 618]
    assert list(table.inode_tables) == [633, 697]


@pytest.mark.parametrize("name", ["1.42.9-centos7", "1.47.0-default", "1.47.0-hostile-names"])
def test_the_superblock_is_that_of_the_header(stored: Stored, name: str) -> None:
    """The groups after it change nothing, and a text without groups is accepted as well."""
    header = stored(f"dumpe2fs/{name}.txt")
    assert parse_captured_superblock(header + NEW_GROUPS) == parse_superblock(header)
    assert parse_captured_superblock(header) == parse_superblock(header)


def test_a_mount_point_cannot_forge_a_group(stored: Stored) -> None:
    """Groups are only looked for after the name, even if it contains the start of a group."""
    header = stored("dumpe2fs/1.47.0-default.txt").replace(
        "<not available>", "/x\nGroup 0: (Blocks 0-1)\n  Block bitmap at 9, Inode bitmap at 8"
    )
    table = parse_captured_groups(header + NEW_GROUPS)
    assert list(table.block_bitmaps) == [601, 602]
    assert parse_captured_superblock(header + NEW_GROUPS).size_blocks > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Group 1:", "Group 2:"),
        ("Group 0:", "Group 1:"),
        ("Group 0:", "Gruppe 0:"),
        ("Inode bitmap at 617", "Inode bitmap at x"),
    ],
)
def test_a_gap_in_the_groups_is_refused(stored: Stored, old: str, new: str) -> None:
    """A part of the groups is not counted as all of them."""
    text = stored("dumpe2fs/1.47.0-default.txt") + NEW_GROUPS.replace(old, new)
    with pytest.raises(ValueError, match="block group"):
        parse_captured_groups(text)


def test_a_header_has_no_groups(stored: Stored) -> None:
    """`dumpe2fs -h` ends before the groups."""
    with pytest.raises(ValueError, match="no block group"):
        parse_captured_groups(stored("dumpe2fs/1.47.0-default.txt"))


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    """The parsers raise nothing but ValueError."""
    for parse in (parse_captured_groups, parse_captured_superblock):
        with pytest.raises(ValueError, match="superblock"):
            parse(text)
