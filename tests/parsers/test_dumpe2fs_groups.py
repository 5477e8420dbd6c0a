from __future__ import annotations

import os
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.dumpe2fs import count_unzeroed, parse_group_descriptors, parse_group_table
from support.timing import relative_time

HEADER = "\ngroup:block:super:gdt:bbitmap:ibitmap:itable\n"


@pytest.mark.parametrize(
    ("name", "count", "second"),
    [
        ("20g", 160, (1029, 1045, 1572)),
        ("1k-blocks", 8, (8450, 8451, 8452)),
        ("bigalloc", 2, (34, 36, 2085)),
    ],
)
def test_a_group_table_has_bitmaps_and_inode_tables(
    stored: Callable[[str], str], name: str, count: int, second: tuple[int, int, int]
) -> None:
    """Each line gives the blocks of a group's bitmaps and of its inode table."""
    table = parse_group_table(stored(f"dumpe2fs/1.47.0-groups-{name}.txt"))
    assert table.groups == count
    assert (table.block_bitmaps[1], table.inode_bitmaps[1], table.inode_tables[1]) == second


def test_an_inode_table_may_be_a_range() -> None:
    """dumpe2fs(8) documents a range of blocks, whose start is used."""
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
    """A table without a header, with a gap or with text instead of numbers is refused."""
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
    """The parser raises nothing but ValueError."""
    try:
        parse_group_table(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


GROUPS_OF_64_TIB = 524_288


def descriptor(size: int, block_bitmap: int, inode_bitmap: int, inode_table: int) -> bytes:
    """Return a descriptor; all bytes that are not one of the three numbers are 0xAA."""
    numbers = (block_bitmap, inode_bitmap, inode_table)
    data = bytearray(b"\xaa" * size)
    struct.pack_into("<3I", data, 0, *(number & 0xFFFFFFFF for number in numbers))
    if size >= 64:
        struct.pack_into("<3I", data, 0x20, *(number >> 32 for number in numbers))
    return bytes(data)


@pytest.mark.parametrize(
    ("size", "numbers"),
    [
        (32, (1028, 1044, 1060)),
        (64, (1028, 1044, 1060)),
        (64, (0x1_0000_0001, 0x2_0000_0002, 0xFFFF_FFFF_FFFF)),
        (128, (0x1_0000_0001, 5, 0x3_0000_0003)),
    ],
)
def test_upper_and_lower_halves_of_numbers_are_joined(
    size: int, numbers: tuple[int, int, int]
) -> None:
    """Descriptors of 64 bytes and more have upper halves; those of 32 bytes do not."""
    data = descriptor(size, 7, 8, 9) + descriptor(size, *numbers)
    table = parse_group_descriptors(data, size)
    assert list(table.block_bitmaps) == [7, numbers[0]]
    assert list(table.inode_bitmaps) == [8, numbers[1]]
    assert list(table.inode_tables) == [9, numbers[2]]


@pytest.mark.parametrize(
    ("length", "size"), [(64, 0), (64, 16), (66, 33), (64, -64), (63, 32), (100, 64), (4097, 64)]
)
def test_data_that_are_not_whole_descriptors_are_refused(length: int, size: int) -> None:
    """Either no descriptor has this size, or the data end within one."""
    with pytest.raises(ValueError, match=r"no group descriptor|do not end"):
        parse_group_descriptors(bytes(length), size)


@given(st.binary(max_size=400), st.integers(-8, 300))
def test_any_bytes_are_parsed_or_refused(data: bytes, size: int) -> None:
    """The parser raises nothing but ValueError, and each descriptor gives one entry."""
    try:
        table = parse_group_descriptors(data, size)
    except ValueError:
        assert size < 32 or size % 4 or len(data) % size
    else:
        assert table.groups == len(table.inode_tables) == len(data) // size


@pytest.mark.bench
def test_parsing_half_a_million_descriptors_takes_little_memory() -> None:
    """The 32 MiB of 64 TiB are parsed by strided copies, with no Python object for a group."""
    data = os.urandom(GROUPS_OF_64_TIB * 64)
    assert parse_group_descriptors(data, 64).groups == GROUPS_OF_64_TIB
    taken = relative_time(lambda: parse_group_descriptors(data, 64), rounds=5)
    print(f"\n524,288 descriptors: {taken:.0f} times 100,000 multiplications")
    assert taken < 60


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("flags", [0x4, 0x7, 0xFFFC])
def test_one_flag_marks_a_zeroed_inode_table(size: int, flags: int) -> None:
    """The flag is INODE_ZEROED, whatever the size of a descriptor."""
    zeroed = flags.to_bytes(2, "little").rjust(0x14, b"\0").ljust(size, b"\0")
    other = (0xFFFB).to_bytes(2, "little").rjust(0x14, b"\xff").ljust(size, b"\xff")
    assert count_unzeroed(zeroed * 5, size) == 0
    assert count_unzeroed(zeroed * 5 + other * 3, size) == 3


@pytest.mark.parametrize(("length", "size"), [(33, 32), (64, 0), (64, 16)])
def test_flags_are_not_counted_in_invalid_descriptors(length: int, size: int) -> None:
    """The data end within a descriptor, or no descriptor has this size."""
    with pytest.raises(ValueError, match="not descriptors"):
        count_unzeroed(bytes(length), size)
