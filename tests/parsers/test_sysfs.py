from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.host import Usage
from ext4audit.facts.mount import DeviceNumber, ResolvedPath
from ext4audit.parsers.sysfs import (
    parse_device_number,
    parse_flag,
    parse_integer,
    parse_key_values,
    parse_names,
    parse_resolved_path,
    parse_stat_filesystem,
    parse_write_cache,
)

PARSERS: list[Callable[[str], object]] = [
    parse_device_number,
    parse_flag,
    parse_integer,
    parse_key_values,
    parse_names,
    parse_write_cache,
]


@pytest.mark.parametrize(
    ("text", "number"), [("524288\n", 524288), ("-1\n", -1), ("0", 0), (" 7 ", 7)]
)
def test_an_integer_is_a_decimal_number(text: str, number: int) -> None:
    """Sysfs writes a decimal number and a newline; md writes -1 for "not set"."""
    assert parse_integer(text) == number


@pytest.mark.parametrize(
    "text", ["", "abc\n", "1_000", "٣", "0x10", "1.5", "1 2", "+1", "9" * 5000]
)
def test_what_is_no_decimal_number_is_refused(text: str) -> None:
    """What int() would take or choke on beyond that is not a number of sysfs."""
    with pytest.raises(ValueError, match="not a decimal number"):
        parse_integer(text)


@pytest.mark.parametrize(("text", "flag"), [("1\n", True), ("0\n", False)])
def test_a_flag_is_one_or_zero(text: str, flag: bool) -> None:
    """A flag of sysfs is 1 or 0."""
    assert parse_flag(text) is flag


@pytest.mark.parametrize("text", ["", "2\n", "yes\n", "01"])
def test_another_flag_is_refused(text: str) -> None:
    """Nothing else is a flag, "2" least of all."""
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        parse_flag(text)


def test_a_device_number_is_major_and_minor() -> None:
    """The number of an md array is read as the kernel prints it."""
    assert parse_device_number("9:127\n") == DeviceNumber(9, 127)


@pytest.mark.parametrize("text", ["", "9", "9:", ":1", "9:1:2", "-1:0", "9:-1", "a:b"])
def test_another_device_number_is_refused(text: str) -> None:
    """A device number has two parts, both counted from 0."""
    with pytest.raises(ValueError, match="not a"):
        parse_device_number(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("MAJOR=9\nMINOR=127\n", {"MAJOR": "9", "MINOR": "127"}),
        ("NAME=a=b\nEMPTY=\n", {"NAME": "a=b", "EMPTY": ""}),
        ("ID_FS_LABEL=\udcff\x85x\n", {"ID_FS_LABEL": "\udcff\x85x"}),
        ("MAJOR=9\nNAME=x\nMAJOR=8\n", {"MAJOR": "9", "NAME": "x"}),
        ("", {}),
        ("\n", {}),
    ],
)
def test_key_values_are_lines_and_the_first_counts(text: str, values: dict[str, str]) -> None:
    """Lines end at a newline alone, and a later line cannot replace an earlier one."""
    assert parse_key_values(text) == values


@pytest.mark.parametrize("text", ["MAJOR\n", "A=1\nrubbish\n", "=x\n"])
def test_a_line_without_key_is_refused(text: str) -> None:
    """A line that is not KEY=value is never dropped in silence."""
    with pytest.raises(ValueError, match="not KEY=value"):
        parse_key_values(text)


@pytest.mark.parametrize(
    ("text", "mode"), [("write back\n", "write back"), ("write through\n", "write through")]
)
def test_a_write_cache_has_two_modes(text: str, mode: str) -> None:
    """The kernel prints one of two phrases."""
    assert parse_write_cache(text) == mode


@pytest.mark.parametrize("text", ["", "write\n", "none\n", "write  back\n"])
def test_another_write_cache_mode_is_refused(text: str) -> None:
    """An unknown mode is never taken for either of the two."""
    with pytest.raises(ValueError, match="not a write cache mode"):
        parse_write_cache(text)


@pytest.mark.parametrize(
    ("text", "names"), [("", ()), ("sda", ("sda",)), ("a\nb\0-c\0\udcff", ("a\nb", "-c", "\udcff"))]
)
def test_names_are_separated_by_nul(text: str, names: tuple[str, ...]) -> None:
    """A name may hold a newline; an empty directory has no name."""
    assert parse_names(text) == names


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text())
def test_any_text_is_parsed_or_refused_of_sysfs(parse: Callable[[str], object], text: str) -> None:
    """Nothing but ValueError leaves these parsers."""
    try:
        parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


def test_the_numbers_are_those_of_statvfs_in_order() -> None:
    """Device number, f_frsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree."""
    number, usage = parse_stat_filesystem("8:1 4096 600 500 400 300 200")
    assert number == DeviceNumber(8, 1)
    assert usage == Usage(4096, 600, 500, 400, 300, 200)


@pytest.mark.parametrize(
    "text",
    ["", "8:1", "8:1 4096 1 1 1 1", "8:1 0 1 1 1 1 1", "8:1 4096 1 1 1 1 -1", "x 1 1 1 1 1 1"],
)
def test_another_text_is_an_error(text: str) -> None:
    """Too few numbers, blocks of no size, less than nothing, and no device."""
    with pytest.raises(ValueError, match="is not"):
        parse_stat_filesystem(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mount_id=30\ndevice_number=8:1\ntype=directory\n",
            ResolvedPath(30, DeviceNumber(8, 1), "directory"),
        ),
        (
            "mount_id=24\ndevice_number=0:6\ntype=block\nrepresents=9:127\n",
            ResolvedPath(24, DeviceNumber(0, 6), "block", DeviceNumber(9, 127)),
        ),
        (
            "type=other\nmount_id=1\ndevice_number=0:5\nrepresents=\n",
            ResolvedPath(1, DeviceNumber(0, 5), "other"),
        ),
    ],
)
def test_a_path_leads_to_a_mount(text: str, expected: ResolvedPath) -> None:
    """The keys come in any order, and only a block device node represents a device."""
    assert parse_resolved_path(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mount_id=30\n",
        "mount_id=x\ndevice_number=8:1\ntype=file\n",
        "mount_id=30\ndevice_number=8\ntype=file\n",
        "mount_id=30\ndevice_number=8:1\ntype=socket\n",
        "mount_id=30\ndevice_number=8:1\ntype=block\nrepresents=x\n",
        "rubbish\n",
    ],
)
def test_another_answer_is_refused(text: str) -> None:
    """A missing key, an unknown type or something else than a number is no answer."""
    with pytest.raises(ValueError, match=r"lacks|not|no type"):
        parse_resolved_path(text)


@given(st.text())
def test_any_text_is_parsed_or_refused_of_resolved_path(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_resolved_path(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
