"""Texts of files and names in directories, on the machine that runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import ListDir, ReadFile
from ext4audit.sources.files import LARGEST_FILE_BYTES
from ext4audit.sources.live import LiveSource

HOSTILE = [b"a b", b"new\nline", b"\x1b[31m", b"$(id)", b"[red]", b"\xff", b"-rf", b"::error x"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_only_a_name(tmp_path: Path, name: bytes) -> None:
    """A file of any name is read, and its directory lists it as it is."""
    with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:  # noqa: PTH118, PTH123 - bytes
        file.write(b"text\n")
    text = name.decode("utf-8", "surrogateescape")
    source = LiveSource()
    path = f"{tmp_path}/{text}"
    assert source.fetch(ReadFile(path)) == Known("text\n", path)
    assert source.fetch(ListDir(str(tmp_path))) == Known(text, str(tmp_path))


def test_bytes_that_are_not_utf8_become_surrogates(tmp_path: Path) -> None:
    """No byte of a file is lost, and no line end is translated."""
    path = tmp_path / "odd"
    path.write_bytes(b"\xff\r\n\xc3\xa9\r")
    assert LiveSource().fetch(ReadFile(str(path))) == Known("\udcff\r\né\r", str(path))


def test_names_are_sorted_and_separated_by_nul(tmp_path: Path) -> None:
    """A directory lists its names in one order on every host."""
    for name in ("b", "a\nc", "a"):
        (tmp_path / name).touch()
    assert LiveSource().fetch(ListDir(str(tmp_path))) == Known("a\0a\nc\0b", str(tmp_path))


def test_an_empty_directory_is_known_to_be_empty(tmp_path: Path) -> None:
    """No names is an answer."""
    assert LiveSource().fetch(ListDir(str(tmp_path))) == Known("", str(tmp_path))


def test_a_file_of_proc_is_read_by_its_content() -> None:
    """The size that stat reports (0) is not believed."""
    assert Path("/proc/self/mountinfo").stat().st_size == 0
    answer = LiveSource().fetch(ReadFile("/proc/self/mountinfo"))
    assert isinstance(answer, Known)
    assert " - " in answer.value


def test_a_file_at_the_limit_is_read_and_one_beyond_is_not(tmp_path: Path) -> None:
    """8 MiB are read; one byte more is a failure that says so."""
    path = tmp_path / "large"
    path.write_bytes(b"x" * LARGEST_FILE_BYTES)
    whole = LiveSource().fetch(ReadFile(str(path)))
    assert isinstance(whole, Known)
    assert len(whole.value) == 8 << 20
    path.write_bytes(b"x" * (LARGEST_FILE_BYTES + 1))
    beyond = LiveSource().fetch(ReadFile(str(path)))
    assert beyond == Unknown(str(path), Why.FAILED, "larger than 8388608 bytes")


def test_a_fifo_does_not_hang_the_scan(tmp_path: Path) -> None:
    """A FIFO without a writer is refused at once."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    answer = LiveSource().fetch(ReadFile(str(path)))
    assert answer == Unknown(str(path), Why.FAILED, "a FIFO, not a regular file")


@pytest.mark.parametrize(
    ("path", "why", "detail"),
    [
        ("/dev/null", Why.FAILED, "a character device, not a regular file"),
        ("/", Why.FAILED, "a directory, not a regular file"),
        ("/proc/no-such-file", Why.ABSENT, "No such file or directory"),
        ("/proc/self/stat/below", Why.ABSENT, "Not a directory"),
        ("/proc/self/a\0b", Why.FAILED, "a name cannot hold NUL"),
        ("/" + "x" * 300, Why.FAILED, "File name too long"),
    ],
)
def test_what_is_no_file_is_unknown_with_a_reason(path: str, why: Why, detail: str) -> None:
    """Reading never raises: the hole says what the host said."""
    assert LiveSource().fetch(ReadFile(path)) == Unknown(path, why, detail)


def test_a_block_device_is_never_read() -> None:
    """A block device is refused by its type, before it is opened."""
    devices = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    if not devices:
        pytest.skip("no block device node in /dev")
    path = str(devices[0])
    answer = LiveSource().fetch(ReadFile(path))
    assert answer == Unknown(path, Why.FAILED, "a block device, not a regular file")


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Neither an answer nor a refusal leaves a descriptor behind."""
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    for name in ("file", "fifo", "absent"):
        LiveSource().fetch(ReadFile(str(tmp_path / name)))
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208 - names only
