from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.host import OperatingSystem
from ext4audit.parsers.os_release import parse_os_release


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
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser."""
    try:
        parse_os_release(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
