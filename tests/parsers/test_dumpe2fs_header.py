from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.dumpe2fs_header import parse_superblock

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
    last_mounted_on=None,
)


def test_the_defaults_of_mke2fs(stored: Stored) -> None:
    """Every field of a filesystem that mke2fs 1.47.0 made with its defaults."""
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
                "last_mounted_on": "/cust",
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
                "last_mounted_on": "/data",
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
def test_a_filesystem(stored: Stored, name: str, fields: dict[str, object]) -> None:
    """What is particular to each filesystem is read, from every version's text."""
    superblock = parse_superblock(stored(f"dumpe2fs/{name}.txt"))
    assert {field: getattr(superblock, field) for field in fields} == fields


def test_hostile_names_forge_no_field(stored: Stored) -> None:
    """A label and a mount point that hold lines of dumpe2fs are read as label and mount point."""
    superblock = parse_superblock(stored("dumpe2fs/1.47.0-hostile-names.txt"))
    assert superblock == replace(
        superblock,
        label="x\nBlock size: 1",
        last_mounted_on="/mnt/\nDefault mount options:    nobarrier",
        default_mount_options=("user_xattr", "acl"),
        block_bytes=1024,
        errors="remount-ro",
        size_blocks=262144,
    )


def _text(label: str, last_mounted_on: str, string: str) -> str:
    """Print a superblock as list_super2() does, strings raw."""
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
    """Draw a string that fits a field of so many bytes, as dumpe2fs prints it."""
    return STRINGS.map(lambda text: ("/" + text).encode()[:size].decode("utf-8", "ignore"))


@given(label=_field(16), last_mounted_on=_field(64), string=_field(64))
def test_no_string_that_fits_its_field_forges_another(
    label: str, last_mounted_on: str, string: str
) -> None:
    """Whatever the three raw strings hold, each is read whole and the other fields are true."""
    superblock = parse_superblock(_text(label, last_mounted_on, string))
    assert (superblock.label, superblock.last_mounted_on) == (label, last_mounted_on)
    assert superblock.mount_option_string == string
    assert superblock.default_mount_options == ("user_xattr", "acl")
    assert (superblock.errors, superblock.state) == ("continue", "clean")
    assert (superblock.uuid, superblock.block_bytes) == (UUID, 4096)
    assert superblock.journal_bytes == 8 << 20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Filesystem volume name:", "文件系统卷名:"),
        ("Block count:              5242880\n", ""),
        ("Block count:              5242880", "Block count:              many"),
        ("Block size:               4096", "Block size:               0"),
        ("Blocks per group:         32768", "Blocks per group:         0"),
        ("Errors behavior:          Continue", "Errors behavior:          Weep"),
        ("Total journal size:       128M", "Total journal size:       big"),
        ("Filesystem OS type:", "OS:"),
        (UUID, "not a uuid"),
    ],
)
def test_another_text_is_refused(stored: Stored, old: str, new: str) -> None:
    """A translated, cut or nonsensical header raises ValueError and is never half a superblock."""
    text = stored("dumpe2fs/1.47.0-default.txt")
    assert old in text
    with pytest.raises(ValueError, match=r"superblock|number| is 0|errors|journal"):
        parse_superblock(text.replace(old, new))


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser, also with rubbish after a true beginning."""
    beginning = _text("x", "/x", "x").partition("Inode count")[0]
    for candidate in (text, beginning + text):
        with pytest.raises(ValueError, match="superblock"):
            parse_superblock(candidate)
