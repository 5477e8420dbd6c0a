from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.ext4_options import parse_options_file

Stored = Callable[[str], str]


@pytest.mark.parametrize(
    ("name", "count", "some"),
    [
        ("3.10-data-err-abort", 18, {"ro", "(null)", "delalloc", "errors=remount-ro"}),
        ("4.14-nobarrier", 16, {"rw", "block_validity", "data=writeback"}),
        (
            "4.19-quota-and-false-dax",
            28,
            {"dioread_lock", "dax", "max_dir_size_kb=0", "jqfmt=vfsv1", "usrjquota=aquota.user"},
        ),
        ("5.19-no-acl", 24, {"nojournal_checksum", "user_xattr", "dioread_nolock"}),
        ("6.x-default", 25, {"acl", "barrier", "data=ordered", "commit=5"}),
        ("6.18-ext2", 26, {"nodelalloc", "dioread_nolock", "i_version"}),
        (
            "6.18-quota",
            28,
            {"prefetch_block_bitmaps", "jqfmt=vfsv1", "usrjquota=aquota.user", "data=writeback"},
        ),
        (
            "6.18-superblock-defaults",
            28,
            {"nobarrier", "nodelalloc", "noauto_da_alloc", "stripe=1536", "fc_debug_force"},
        ),
    ],
)
def test_every_era_is_one_tuple_of_options(
    stored: Stored, name: str, count: int, some: set[str]
) -> None:
    """Every kernel's file gives its words in order, with quota words and unknown ones kept."""
    tokens = parse_options_file(stored(f"ext4-options/{name}.txt"))
    assert len(tokens) == count
    assert tokens[0] in {"rw", "ro"}
    assert some <= set(tokens)


def test_the_quota_words_come_off_the_last_line() -> None:
    """What the kernel glues to the last line with commas are options of their own."""
    assert parse_options_file("rw\nmax_dir_size_kb=0,jqfmt=vfsv1,usrjquota=a.user\n") == (
        "rw",
        "max_dir_size_kb=0",
        "jqfmt=vfsv1",
        "usrjquota=a.user",
    )


def test_an_escaped_name_is_decoded_after_the_split() -> None:
    """A quota file's name with a comma stays in one piece."""
    assert parse_options_file("rw\nusrjquota=a\\054b\n") == ("rw", "usrjquota=a,b")


@pytest.mark.parametrize("text", ["", "\n", "bsddf\nrw\n", "rwx\n", "No such file\n"])
def test_a_text_without_the_state_is_refused(text: str) -> None:
    """An empty read is not "no option is in force"."""
    with pytest.raises(ValueError, match="does not begin with rw or ro"):
        parse_options_file(text)


@given(st.one_of(st.text(), st.text().map("rw\n".__add__)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_options_file(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
