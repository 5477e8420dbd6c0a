from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.mount import FstabLine
from ext4audit.parsers.fstab import parse_fstab

Stored = Callable[[str], str]
ODD = Path(__file__).parents[2] / "fixtures/texts/fstab/libmount-2.38.1-odd-lines.txt"


def test_a_debian_table(stored: Stored) -> None:
    """Comments are skipped, escapes decoded, missing fields defaulted, options kept as spelled."""
    lines = parse_fstab(stored("fstab/debian-12.txt"))
    assert [(line.line_number, line.mount_point) for line in lines] == [
        (5, "/"),
        (6, "/data"),
        (7, "/mnt/with space"),
        (8, "/boot/efi"),
        (9, "none"),
    ]
    assert lines[1] == FstabLine(
        6,
        "/dev/mapper/vg0-data",
        "/data",
        "ext4",
        ("noatime", "nobarrier", "data=writeback"),
        "noatime,nobarrier,data=writeback",
        0,
        2,
    )
    assert lines[2].spec == "LABEL=my label"
    assert (lines[2].dump_frequency, lines[2].fsck_pass) == (0, 0)


def test_odd_lines_are_taken_or_ignored_as_mount_does(stored: Stored) -> None:
    """The lines that libmount 2.38.1 called parse errors are missing, all others are here."""
    lines = parse_fstab(stored("fstab/libmount-2.38.1-odd-lines.txt"))
    assert [line.line_number for line in lines] == [4, 5, 6, 7, 9, 11, 13, 16, 17, 18, 19]
    by_mount_point = {line.mount_point: line for line in lines}
    assert by_mount_point["/a"].options == ("defaults",)
    assert by_mount_point["/a"].raw_options == "defaults"
    assert (by_mount_point["/c"].dump_frequency, by_mount_point["/c"].fsck_pass) == (1, 0)
    assert by_mount_point["/h"].fsck_pass == 2  # the line ends in a carriage return
    assert by_mount_point["/j"].dump_frequency == -1
    assert by_mount_point["/m"].spec == "/dev/m\x0b/m"
    assert by_mount_point["/n"].options == ("defaults", 'context="a,b"')
    assert by_mount_point["/o"].spec == "LABEL=a#b"


def test_findmnt_takes_the_same_lines(stored: Stored) -> None:
    """The libmount of this machine agrees on which lines of the odd table are mounts."""
    ours = parse_fstab(stored("fstab/libmount-2.38.1-odd-lines.txt"))
    printed = subprocess.run(
        ["findmnt", "-F", str(ODD), "-P", "-o", "TARGET"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed.splitlines() == [f'TARGET="{line.mount_point}"' for line in ours]


@pytest.mark.parametrize(
    ("line", "spec", "mount_point", "options", "raw_options"),
    [
        (
            r"\040x" + "\t" + r"/\303\244\134\011 ext4 a\040b,c",
            " x",
            "/ä\\\t",
            ("a b", "c"),
            r"a\040b,c",
        ),
        ("-x /\udcff\x1b[31m ext4 rw,,ro", "-x", "/\udcff\x1b[31m", ("rw", "ro"), "rw,,ro"),
        ("$(id) /[/red] ext4 $(id)", "$(id)", "/[/red]", ("$(id)",), "$(id)"),
        ("a\u2028b /c\x85d ext4 rw", "a\u2028b", "/c\x85d", ("rw",), "rw"),
        ("\u00a0 /nbsp ext4 rw", "\u00a0", "/nbsp", ("rw",), "rw"),
    ],
)
def test_hostile_names(
    line: str, spec: str, mount_point: str, options: tuple[str, ...], raw_options: str
) -> None:
    """Only blanks and tabs separate fields, only a newline ends a line, escapes are bytes."""
    assert parse_fstab(f"\n{line}\n") == (
        FstabLine(2, spec, mount_point, "ext4", options, raw_options, 0, 0),
    )


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "  \t \n", "/dev/sda1 /\n", "x\n"])
def test_a_table_may_hold_no_mount(text: str) -> None:
    """An empty table, and one of comments and broken lines, is a table without entries."""
    assert parse_fstab(text) == ()


@given(st.one_of(st.text(), st.text(alphabet="a/ \t\n\\0134#,\r")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError leaves the parser, and line numbers lie within the text."""
    try:
        lines = parse_fstab(text)
    except ValueError:
        return
    assert all(1 <= line.line_number <= text.count("\n") + 1 for line in lines)
