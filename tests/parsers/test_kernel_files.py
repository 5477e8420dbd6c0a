from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.host import Kernel, OperatingSystem, Usage
from ext4audit.facts.mount import DeviceNumber, ResolvedPath
from ext4audit.parsers import (
    parse_count,
    parse_device_number,
    parse_device_size,
    parse_flag,
    parse_grub_version,
    parse_integer,
    parse_kernel,
    parse_kernel_arguments,
    parse_key_values,
    parse_names,
    parse_nodename,
    parse_os_release,
    parse_resolved_path,
    parse_scheduler,
    parse_stat_filesystem,
    parse_write_cache,
)

VERSION = "#1 SMP"


@pytest.mark.parametrize(
    ("release", "version", "upstream"),
    [
        ("4.19.91-24.8.al7.x86_64", VERSION, (4, 19, 91)),
        ("5.10", VERSION, (5, 10, 0)),
        ("6.18.44-fc-v657", VERSION, (6, 18, 44)),
        ("6.19.0-rc1+", VERSION, (6, 19, 0)),
        ("7", VERSION, (7, 0, 0)),
        ("3.10.0-1160.119.1.el7.x86_64", VERSION, (3, 10, 0)),
        ("5.15.0-91-generic", "#101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023", (5, 15, 0)),
        (
            "6.1.0-18-amd64",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)",
            (6, 1, 76),
        ),
        ("3.2.0-4-amd64", "#1 SMP Debian 3.2.65-1+deb7u2", (3, 2, 65)),
        ("6.12.94+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.94-1", (6, 12, 94)),
        ("6.18.2-custom", "#1 SMP Debian 6.1.76-1", (6, 18, 2)),
        ("5.10.0-30-cloud-amd64", "#1 SMP Debian 5.10.218-1 (2024-06-01)", (5, 10, 218)),
    ],
)
def test_upstream_is_the_version_that_was_built(
    release: str, version: str, upstream: tuple[int, int, int]
) -> None:
    """The release contains it, except on Debian, whose release has the ABI instead."""
    text = f"{release}\n{version}\nx86_64\ndb1\n"
    assert parse_kernel(text) == Kernel(release, version, upstream, machine="x86_64")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("6.1.0\n#1\nx86_64\ndb1\n", "db1"),
        ("6.1.0\n#1\nx86_64\ndb1", "db1"),
        ("6.1.0\n#1\nx86_64\na\nb\x1b[31m\udcff\n", "a\nb\x1b[31m\udcff"),
        ("6.1.0\n#1\nx86_64\n\n", ""),
        ("6.1.0\n#1\nx86_64\n", ""),
    ],
)
def test_a_host_name_may_contain_any_character(text: str, name: str) -> None:
    """The host name comes last, so that a newline in it cannot shift the other answers."""
    assert parse_nodename(text) == name


@pytest.mark.parametrize("text", ["", "6.1.0\n", "6.1.0\n#1\nx86_64", "\n\n"])
def test_fewer_than_four_answers_are_refused(text: str) -> None:
    """A truncated text is refused."""
    with pytest.raises(ValueError, match="not the answer of uname"):
        parse_nodename(text)


def test_a_release_without_a_number_is_refused() -> None:
    """A kernel of unknown version is unknown, not old."""
    with pytest.raises(ValueError, match="version number"):
        parse_kernel("custom-6.1\n#1\nx86_64\ndb1\n")


@pytest.mark.parametrize("parse", [parse_kernel, parse_nodename])
@given(text=st.one_of(st.text(), st.text().map(lambda text: f"6.1\n{text}\nx86_64\ndb1\n")))
def test_any_text_is_parsed_or_refused_of_uname(parse: Callable[[str], object], text: str) -> None:
    """The parsers raise nothing but ValueError."""
    try:
        parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("debian-12", OperatingSystem("debian", "12", "Debian GNU/Linux 12 (bookworm)")),
        ("centos-7", OperatingSystem("centos", "7", "CentOS Linux 7 (Core)")),
        ("arch", OperatingSystem("arch", "", "Arch Linux")),
    ],
)
def test_an_os_release_file_is_parsed(
    stored: Callable[[str], str], name: str, expected: OperatingSystem
) -> None:
    """Quotes do not matter, and a missing field is empty."""
    assert parse_os_release(stored(f"os-release/{name}.txt")) == expected


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("debian", "debian"),
        ('"a b"', "a b"),
        ("'a \"b\" $c'", 'a "b" $c'),
        (r'"\"q\" \$x \`y\` \\ \n"', r'"q" $x `y` \ \n'),
        (r"a\ b", "a b"),
        ('""', ""),
        ('"', '"'),
        ("  # no comment", "  # no comment"),
    ],
)
def test_values_are_unquoted_as_a_shell_would(spelling: str, value: str) -> None:
    """Every quoting that os-release(5) allows gives the value."""
    assert parse_os_release(f"ID={spelling}|\nID={spelling}\n".split("|")[1]).id == value


def test_invalid_lines_are_skipped_and_the_last_assignment_counts() -> None:
    """A line that is not an assignment does not hide the others."""
    text = "#c\n<html>\n= x\n1D=x\nID=a\n\x1b\nID=b\nVERSION_ID=1\u2028NAME=x\n"
    assert parse_os_release(text) == OperatingSystem("b", "1\u2028NAME=x", "")


@pytest.mark.parametrize("text", ["", "\n# only a comment\n", "rubbish"])
def test_a_text_without_assignment_is_refused(text: str) -> None:
    """A file of another kind is not an operating system without a name."""
    with pytest.raises(ValueError, match="no line is an assignment"):
        parse_os_release(text)


@given(st.one_of(st.text(), st.text().map("ID=".__add__)))
def test_any_text_is_parsed_or_refused_of_os_release(text: str) -> None:
    """The parser raises nothing but ValueError."""
    try:
        parse_os_release(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 root=UUID=4a1e8f2e ro quiet\n",
            ("BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64", "root=UUID=4a1e8f2e", "ro", "quiet"),
        ),
        ('root="LABEL=a b" ro', ("root=LABEL=a b", "ro")),
        ('"root=LABEL=a b" ro', ("root=LABEL=a b", "ro")),
        ('rootflags="data=writeback, x', ("rootflags=data=writeback, x",)),
        ('dyndbg="file x.c +p; y" z', ("dyndbg=file x.c +p; y", "z")),
        ('a=b"c d"e f', ('a=b"c d"e', "f")),
        ("quiet -- single", ("quiet", "--", "single")),
        ("a\u00a0b \udcff", ("a\u00a0b", "\udcff")),
        ("\n", ()),
        ("", ()),
    ],
)
def test_arguments_end_at_blanks_outside_quotes(text: str, arguments: tuple[str, ...]) -> None:
    """Double quotes protect blanks; those around an argument or its value are dropped."""
    assert parse_kernel_arguments(text) == arguments


@given(st.text(alphabet='ab="\\ \n-'))
def test_an_unquoted_argument_contains_no_blank(text: str) -> None:
    """Without quotes, arguments are the words of the line."""
    plain = text.replace('"', "")
    assert parse_kernel_arguments(plain) == tuple(plain.split())


@given(st.text())
def test_any_kernel_command_line_is_parsed(text: str) -> None:
    """Every text has arguments, and none of them is empty except for quotes."""
    arguments = parse_kernel_arguments(text)
    assert all(arguments) or '"' in text


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("grub-install (GRUB) 2.06-13+deb12u1\n", "2.06-13+deb12u1"),
        ("grub-install (GRUB) 2.12-1ubuntu7.3\n", "2.12-1ubuntu7.3"),
        ("grub2-install (GRUB) 2.06\n", "2.06"),
        ("/usr/sbin/grub-install (GNU GRUB) 0.97\n", None),
        ("", None),
    ],
)
def test_the_version_of_grub_follows_its_name(text: str, version: str | None) -> None:
    """The distribution's revision is part of it; GRUB Legacy is another program."""
    if version is None:
        with pytest.raises(ValueError, match="is not a version"):
            parse_grub_version(text)
    else:
        assert parse_grub_version(text) == version


PARSERS: list[Callable[[str], object]] = [
    parse_device_number,
    parse_flag,
    parse_integer,
    parse_key_values,
    parse_names,
    parse_scheduler,
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
def test_other_forms_of_numbers_are_refused(text: str) -> None:
    """Other forms that int() accepts, or fails on, are not numbers of sysfs."""
    with pytest.raises(ValueError, match="not a decimal number"):
        parse_integer(text)


@pytest.mark.parametrize("parse", [parse_count, parse_device_size])
@pytest.mark.parametrize(("text", "number"), [("524288\n", 524288), (" 7 ", 7)])
def test_a_count_is_a_number(parse: Callable[[str], int], text: str, number: int) -> None:
    """Sizes and limits are printed as other numbers are."""
    assert parse(text) == number


@pytest.mark.parametrize("text", ["-1\n", "-524288", "one"])
def test_a_count_is_not_negative(text: str) -> None:
    """A negative size or dirty limit would be below every threshold."""
    with pytest.raises(ValueError, match=r"is negative|not a decimal number"):
        parse_count(text)


def test_a_device_in_use_has_a_size() -> None:
    """The size of a disk that was pulled out is 0, and no verdict follows from it."""
    assert parse_count("0\n") == 0
    with pytest.raises(ValueError, match="the device is gone"):
        parse_device_size("0\n")


@pytest.mark.parametrize(("text", "flag"), [("1\n", True), ("0\n", False)])
def test_a_flag_is_one_or_zero(text: str, flag: bool) -> None:
    """A flag of sysfs is 1 or 0."""
    assert parse_flag(text) is flag


@pytest.mark.parametrize("text", ["", "2\n", "yes\n", "01"])
def test_a_flag_other_than_one_or_zero_is_refused(text: str) -> None:
    """No other number is a flag, not even "2"."""
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        parse_flag(text)


def test_a_device_number_is_major_and_minor() -> None:
    """The number of an md array is read in the kernel's format."""
    assert parse_device_number("9:127\n") == DeviceNumber(9, 127)


@pytest.mark.parametrize("text", ["", "9", "9:", ":1", "9:1:2", "-1:0", "9:-1", "a:b"])
def test_an_invalid_device_number_is_refused(text: str) -> None:
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
    """A line that is not KEY=value raises an error and is not dropped."""
    with pytest.raises(ValueError, match="not KEY=value"):
        parse_key_values(text)


@pytest.mark.parametrize(
    ("text", "mode"), [("write back\n", "write back"), ("write through\n", "write through")]
)
def test_a_write_cache_has_two_modes(text: str, mode: str) -> None:
    """The kernel prints one of two phrases."""
    assert parse_write_cache(text) == mode


@pytest.mark.parametrize("text", ["", "write\n", "none\n", "write  back\n"])
def test_an_unknown_write_cache_mode_is_refused(text: str) -> None:
    """An unknown mode is never treated as either of the two."""
    with pytest.raises(ValueError, match="not a write cache mode"):
        parse_write_cache(text)


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("[none] mq-deadline kyber\n", "none"),
        ("none [mq-deadline]\n", "mq-deadline"),
        ("noop deadline [cfq]\n", "cfq"),
        ("none\n", "none"),
    ],
)
def test_the_active_scheduler_is_in_brackets(text: str, active: str) -> None:
    """A device without a request queue shows "none" alone."""
    assert parse_scheduler(text) == active


@pytest.mark.parametrize(
    "text", ["", "noop deadline cfq\n", "[none] [bfq]\n", "[]\n", "mq-deadline"]
)
def test_a_scheduler_list_without_brackets_is_refused(text: str) -> None:
    """The order of the list does not show the active one."""
    with pytest.raises(ValueError, match="no active scheduler"):
        parse_scheduler(text)


@pytest.mark.parametrize(
    ("text", "names"), [("", ()), ("sda", ("sda",)), ("a\nb\0-c\0\udcff", ("a\nb", "-c", "\udcff"))]
)
def test_names_are_separated_by_nul(text: str, names: tuple[str, ...]) -> None:
    """A name may contain a newline; an empty directory has no names."""
    assert parse_names(text) == names


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text())
def test_any_text_is_parsed_or_refused_of_sysfs(parse: Callable[[str], object], text: str) -> None:
    """The parsers raise nothing but ValueError."""
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
def test_invalid_numbers_of_statvfs_are_refused(text: str) -> None:
    """Too few numbers, a block size of 0, negative numbers, and a missing device."""
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
        "mount_id=30\ndevice_number=8:1\ntype=block\n",
        "rubbish\n",
    ],
)
def test_an_invalid_resolved_path_is_refused(text: str) -> None:
    """A missing key, an unknown type or text instead of a number is refused."""
    with pytest.raises(ValueError, match=r"lacks|not|no type"):
        parse_resolved_path(text)


@given(st.text())
def test_any_text_is_parsed_or_refused_of_resolved_path(text: str) -> None:
    """The parser raises nothing but ValueError."""
    try:
        parse_resolved_path(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
