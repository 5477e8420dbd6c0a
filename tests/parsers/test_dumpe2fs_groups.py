from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.dumpe2fs_groups import parse_group_table

HEADER = "\ngroup:block:super:gdt:bbitmap:ibitmap:itable\n"


@pytest.mark.parametrize(
    ("name", "count", "second"),
    [
        ("20g", 160, (1029, 1045, 1572)),
        ("1k-blocks", 8, (8450, 8451, 8452)),
        ("bigalloc", 2, (34, 36, 2085)),
    ],
)
def test_a_group_table(
    stored: Callable[[str], str], name: str, count: int, second: tuple[int, int, int]
) -> None:
    """Each line gives the blocks of a group's bitmaps and of its inode table."""
    table = parse_group_table(stored(f"dumpe2fs/1.47.0-groups-{name}.txt"))
    assert table.groups == count
    assert (table.block_bitmaps[1], table.inode_bitmaps[1], table.inode_tables[1]) == second


def test_an_inode_table_may_be_a_range() -> None:
    """dumpe2fs(8) documents a range of blocks; its start is taken."""
    table = parse_group_table(HEADER + "0:0:0:1-1:193:194:195-706\n")
    assert list(table.inode_tables) == [195]


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEADER,
        "0:0:0:1-1:193:194:195\n",
        HEADER + "0:0:0:1-1:193:194\n",
        HEADER + "1:0:0:1-1:193:194:195\n",
        HEADER + "0:0:0:1-1:193:194:195\n2:0:0:1-1:193:194:195\n",
        HEADER + "0:0:0:1-1:x:194:195\n",
        HEADER + "0:0:0:1-1:193:194:-1\n",
        HEADER + "0:0:0:1-1:193:194:99999999999999999999\n",
        HEADER + "0:0:0:1-1:193:194:195 \n",
        HEADER + "0:0:0:1-1:193:194:195\n\n1:0:0:1-1:193:194:195\n",
    ],
)
def test_a_broken_table_is_refused(text: str) -> None:
    """A table without header, with a gap or with something else than numbers counts nothing."""
    with pytest.raises(ValueError, match=r"header|not block group"):
        parse_group_table(text)


@given(
    st.one_of(
        st.text(),
        st.text().map(HEADER.__add__),
        st.text(alphabet="0123456789:-\n").map(HEADER.__add__),
    )
)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_group_table(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
