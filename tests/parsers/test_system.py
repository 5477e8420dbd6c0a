from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.host import Kernel, OperatingSystem
from ext4audit.parsers.system import (
    parse_grub_version,
    parse_kernel,
    parse_kernel_arguments,
    parse_nodename,
    parse_os_release,
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
    """The release has it, except on Debian, whose release names the ABI instead."""
    text = f"{release}\n{version}\nx86_64\ndb1\n"
    assert parse_kernel(text) == Kernel(release, version, upstream)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("6.1.0\n#1\nx86_64\ndb1\n", "db1"),
        ("6.1.0\n#1\nx86_64\ndb1", "db1"),
        ("6.1.0\n#1\nx86_64\na\nb\x1b[31m\udcff\n", "a\nb\x1b[31m\udcff"),
        ("6.1.0\n#1\nx86_64\n\n", ""),
    ],
)
def test_a_host_name_may_hold_anything(text: str, name: str) -> None:
    """The host name comes last, so that a newline in it cannot shift the other answers."""
    assert parse_nodename(text) == name


@pytest.mark.parametrize("text", ["", "6.1.0\n", "6.1.0\n#1\nx86_64", "\n\n"])
def test_fewer_than_four_answers_are_refused(text: str) -> None:
    """A text that is cut off is no answer."""
    with pytest.raises(ValueError, match="not the answer of uname"):
        parse_nodename(text)


def test_a_release_without_a_number_is_refused() -> None:
    """A kernel whose version is not known is unknown, not old."""
    with pytest.raises(ValueError, match="version number"):
        parse_kernel("custom-6.1\n#1\nx86_64\ndb1\n")


@pytest.mark.parametrize("parse", [parse_kernel, parse_nodename])
@given(text=st.one_of(st.text(), st.text().map(lambda text: f"6.1\n{text}\nx86_64\ndb1\n")))
def test_any_text_is_parsed_or_refused_of_uname(parse: Callable[[str], object], text: str) -> None:
    """Nothing but ValueError leaves the parsers."""
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
def test_a_distribution(stored: Callable[[str], str], name: str, expected: OperatingSystem) -> None:
    """Quoted and bare values read alike, and a field that the file lacks is empty."""
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
    """Each way of quoting that os-release(5) allows gives the value back."""
    assert parse_os_release(f"ID={spelling}|\nID={spelling}\n".split("|")[1]).id == value


def test_junk_is_skipped_and_the_last_assignment_counts() -> None:
    """A line that is no assignment does not hide the others."""
    text = "#c\n<html>\n= x\n1D=x\nID=a\n\x1b\nID=b\nVERSION_ID=1\u2028NAME=x\n"
    assert parse_os_release(text) == OperatingSystem("b", "1\u2028NAME=x", "")


@pytest.mark.parametrize("text", ["", "\n# only a comment\n", "rubbish"])
def test_a_text_without_assignment_is_refused(text: str) -> None:
    """A file of another kind is not an operating system without a name."""
    with pytest.raises(ValueError, match="no line is an assignment"):
        parse_os_release(text)


@given(st.one_of(st.text(), st.text().map("ID=".__add__)))
def test_any_text_is_parsed_or_refused_of_os_release(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
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
    """Double quotes protect blanks; those round an argument or its value are dropped."""
    assert parse_kernel_arguments(text) == arguments


@given(st.text(alphabet='ab="\\ \n-'))
def test_no_argument_without_quotes_holds_a_blank(text: str) -> None:
    """Without quotes, arguments are the words of the line."""
    plain = text.replace('"', "")
    assert parse_kernel_arguments(plain) == tuple(plain.split())


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    """Every text has arguments, and none of them is empty but for quotes."""
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
def test_the_version_follows_the_name(text: str, version: str | None) -> None:
    """The distribution's revision belongs to it; GRUB Legacy is another program."""
    if version is None:
        with pytest.raises(ValueError, match="names no version"):
            parse_grub_version(text)
    else:
        assert parse_grub_version(text) == version
