from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.archive.capture import (
    NO_COMPLAINT,
    Output,
    cut_off,
    judge,
    mangle,
    numbered,
    tailed,
)
from ext4audit.sources.archive.tool_output import HEADER
from support.archives.contents import DATA_UUID, dumpe2fs_header


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("dumpe2fs -h /dev/vda1", "dumpe2fs_-h_.dev.vda1"),
        ("/usr/sbin/dumpe2fs -h /dev/vda1", "dumpe2fs_-h_.dev.vda1"),
        ("/sbin/dumpe2fs -h /dev/vda1", "dumpe2fs_-h_.dev.vda1"),
        ("dumpe2fs  /dev/vda1", "dumpe2fs_.dev.vda1"),
        ("mdadm -D /dev/md*", "mdadm_-D_.dev.md"),
        ("blkid -c /dev/null", "blkid_-c_.dev.null"),
        ("lsblk -O -P", "lsblk_-O_-P"),
        ("ls -lanR /sys/block", "ls_-lanR_.sys.block"),
        ("dumpe2fs -h /dev/mapper/vg-a+b", "dumpe2fs_-h_.dev.mapper.vg-a_b"),
        ("dumpe2fs -h /dev/mapper/vg-a b", "dumpe2fs_-h_.dev.mapper.vg-a_b"),
        ("dumpe2fs -h /dev/vg/lv", "dumpe2fs_-h_.dev.vg.lv"),
        ("dumpe2fs -h /dev/vg.lv", "dumpe2fs_-h_.dev.vg.lv"),
        ("dumpe2fs -h /dev/mapper/\udcff\n$(id)", "dumpe2fs_-h_.dev.mapper._id"),
        ("x" * 300, "x" * 255),
        ("", ""),
    ],
)
def test_file_name_of_a_command_line(line: str, name: str) -> None:
    """Program folders are dropped, a slash becomes a dot, a run of other characters "_"."""
    assert mangle(line) == name


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [("a", 0, "a"), ("a", 1, "a.1"), ("a", 12, "a.12"), ("x" * 255, 2, "x" * 253 + ".2")],
)
def test_second_file_of_one_name_is_numbered(name: str, count: int, expected: str) -> None:
    """The number replaces the end of a name that would exceed 255 bytes."""
    assert numbered(name, count) == expected


BANNER = "dumpe2fs 1.47.0 (5-Feb-2023)\n"


@pytest.mark.parametrize(
    ("text", "status", "why", "hint"),
    [
        (
            BANNER + "dumpe2fs: Operation not permitted while trying to open /dev/vda\n",
            None,
            Why.DENIED,
            "capture again as root, outside containers",
        ),
        (
            BANNER + "dumpe2fs: Permission denied while trying to open /dev/vda\n",
            1,
            Why.DENIED,
            "capture again as root, outside containers",
        ),
        (
            "/bin/bash: dumpe2fs: command not found\n",
            None,
            Why.ABSENT,
            "install the program and capture again",
        ),
        (
            "timeout: failed to run command 'dumpe2fs': No such file or directory\n",
            None,
            Why.ABSENT,
            "install the program and capture again",
        ),
        (
            "ERROR: Command not found or not executable\n",
            None,
            Why.ABSENT,
            "install the program and capture again",
        ),
        ("", 127, Why.ABSENT, "install the program and capture again"),
        ("", 124, Why.TIMED_OUT, "capture again with a longer timeout"),
        (
            "# ERROR: Command did not complete within the timeout period.\n",
            None,
            Why.TIMED_OUT,
            "capture again with a longer timeout",
        ),
        (BANNER + "dumpe2fs: Bad magic number in super-block\n", None, Why.FAILED, ""),
        ("", None, Why.FAILED, ""),
        (dumpe2fs_header(DATA_UUID), 1, Why.FAILED, ""),
    ],
)
def test_stored_error_message_gives_the_reason(
    text: str, status: int | None, why: Why, hint: str
) -> None:
    """An archive stores "Operation not permitted" like any other output."""
    found = judge(Output(text, "member", status), HEADER, "hostname", "superblock")
    assert isinstance(found, Unknown)
    assert (found.what, found.why, found.hint) == ("superblock", why, hint)


@pytest.mark.parametrize(
    ("output", "why", "hint"),
    [
        (cut_off("member"), Why.UNPARSABLE, "capture it again"),
        (tailed("member"), Why.NOT_CAPTURED, "capture again with a larger --log-size"),
    ],
)
@pytest.mark.parametrize("text", [None, "the message in other words"])
def test_an_incomplete_output_states_its_reason(
    output: Output, why: Why, hint: str, text: str | None
) -> None:
    """The message is for people: it decides nothing."""
    found = judge(output._replace(text=text or output.text), HEADER, "dumpe2fs", "superblock")
    assert isinstance(found, Unknown)
    assert (found.why, found.hint) == (why, hint)


def test_the_hint_for_a_missing_program_names_its_package() -> None:
    """The name of the evidence is for people, and need not begin with the program."""
    missing = Output("/bin/bash: dumpe2fs: command not found\n", "member")
    found = judge(missing, HEADER, "dumpe2fs", "superblock of /dev/vda")
    assert isinstance(found, Unknown)
    assert found.hint == "install e2fsprogs and capture again"


def test_the_detail_names_the_file_and_the_line_below_the_banner() -> None:
    """The banner of dumpe2fs is not the cause."""
    text = BANNER + "dumpe2fs: Bad magic number\nmore\n"
    found = judge(Output(text, "member"), HEADER, "dumpe2fs", "x")
    assert isinstance(found, Unknown)
    assert found.detail == "member: dumpe2fs: Bad magic number"


@pytest.mark.parametrize("status", [0, None])
def test_valid_output_without_a_status(status: int | None) -> None:
    """If no status was kept, the text itself is the proof."""
    text = dumpe2fs_header(DATA_UUID)
    assert judge(Output(text, "member", status), HEADER, "dumpe2fs", "x") == Known(text, "member")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("vm\n", True),
        ("", True),
        ("sh: hostname: command not found", False),
        ("a\nb: Permission denied\n", False),
    ],
)
def test_other_output_is_valid_unless_it_is_an_error_message(text: str, *, good: bool) -> None:
    """This is the rule for commands without a better one."""
    assert isinstance(judge(Output(text, "m"), NO_COMPLAINT, "lsblk", "x"), Known) is good
