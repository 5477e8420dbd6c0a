from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import CapturedDumpe2fs, ReadBytes
from ext4audit.sources.live import LiveSource
from scratch import Scratch

MIB = 1 << 20


@pytest.fixture
def image(tmp_path: Path) -> str:
    """Make a file of 300 bytes that are all different from their neighbours."""
    path = tmp_path / "image"
    path.write_bytes(bytes(range(256)) + bytes(44))
    return str(path)


@pytest.mark.parametrize(
    ("offset", "length", "found"),
    [(0, 4, b"\0\1\2\3"), (254, 4, b"\xfe\xff\0\0"), (296, 4, bytes(4)), (300, 0, b"")],
)
def test_bytes_are_those_of_the_place(image: str, offset: int, length: int, found: bytes) -> None:
    """An answer is exactly what lies there, and its origin names the place."""
    origin = f"{length} bytes at {offset} of {image}"
    assert LiveSource().fetch(ReadBytes(image, offset, length)) == Known(found, origin)


@pytest.mark.parametrize(
    ("offset", "length", "detail"),
    [
        (298, 4, "2 of 4 bytes are there"),
        (300, 1, "0 of 1 bytes are there"),
        (1 << 62, 1, "0 of 1 bytes are there"),
        (-1, 4, "no such place on any device"),
        (0, -1, "no such place on any device"),
        ((1 << 63) - 1, 1, "no such place on any device"),
        (1 << 64, 1, "no such place on any device"),
        (0, 64 * MIB + 1, "67108865 bytes; at most 67108864 are read"),
    ],
)
def test_what_is_not_all_there_is_not_answered(
    image: str, offset: int, length: int, detail: str
) -> None:
    """A part of what was asked for would be taken for all of it."""
    answer = LiveSource().fetch(ReadBytes(image, offset, length))
    what = f"{length} bytes at {offset} of {image}"
    assert answer == Unknown(what, Why.FAILED, detail)


@pytest.mark.parametrize(
    ("path", "why", "detail"),
    [
        ("/dev/null", Why.FAILED, "a character device, not a block device or a regular file"),
        ("/proc", Why.FAILED, "a directory, not a block device or a regular file"),
        ("/no/such", Why.ABSENT, "No such file or directory"),
        ("/no\0such", Why.FAILED, "a name cannot hold NUL"),
    ],
)
def test_only_devices_and_files_are_read(path: str, why: Why, detail: str) -> None:
    """A character device may do something when it is opened: a tape rewinds."""
    answer = LiveSource().fetch(ReadBytes(path, 0, 1))
    assert isinstance(answer, Unknown)
    assert (answer.why, answer.detail) == (why, detail)


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    """A FIFO is refused before it is opened, which would wait for a writer."""
    os.mkfifo(tmp_path / "fifo")
    answer = LiveSource().fetch(ReadBytes(str(tmp_path / "fifo"), 0, 1))
    assert isinstance(answer, Unknown)
    assert answer.detail == "a FIFO, not a block device or a regular file"


def test_another_reading_looks_again(image: str) -> None:
    """One reading of a place is one answer; the next reading is another ask."""
    source = LiveSource()
    first = source.fetch(ReadBytes(image, 0, 1))
    Path(image).write_bytes(b"new")
    assert source.fetch(ReadBytes(image, 0, 1)) == first
    again = source.fetch(ReadBytes(image, 0, 1, reading=1))
    assert again == Known(b"n", f"1 bytes at 0 of {image}")


def test_megabytes_are_not_kept(image: str) -> None:
    """The descriptors of a large filesystem are given away, and not remembered by a scan."""
    os.truncate(image, MIB)
    source = LiveSource()
    first = source.fetch(ReadBytes(image, 0, MIB))
    assert source.fetch(ReadBytes(image, 0, MIB)) is not first


@pytest.mark.kernel
@pytest.mark.usefixtures("private_mounts")
def test_a_mounted_device_is_read_through_the_page_cache(tmp_path: Path) -> None:
    """A block device is read while the kernel has it mounted: the magic number is there."""
    scratch = Scratch(tmp_path / "image", tmp_path / "mnt").make().mount()
    try:
        answer = LiveSource().fetch(ReadBytes(scratch.device, 1024 + 0x38, 2))
    finally:
        scratch.unmount()
    assert isinstance(answer, Known)
    assert answer.value == b"\x53\xef"


def test_without_privileges_a_device_is_denied(tmp_path: Path) -> None:
    """The hint says that root could read it."""
    path = tmp_path / "closed"
    path.touch(0)
    script = (
        "import os, sys\n"
        "from ext4audit.sources.ask import ReadBytes\n"
        "from ext4audit.sources.live import LiveSource\n"
        "os.geteuid() or os.setresuid(65534, 65534, 65534)\n"
        "print(LiveSource().fetch(ReadBytes(sys.argv[1], 0, 1)))\n"
    )
    said = subprocess.check_output([sys.executable, "-c", script, str(path)], text=True)
    what = f"1 bytes at 0 of {path}"
    assert said.strip() == str(Unknown(what, Why.DENIED, "Permission denied", "run as root"))


def test_plain_dumpe2fs_is_never_run() -> None:
    """Without options dumpe2fs reads every bitmap; only archives answer this ask."""
    answer = LiveSource().fetch(CapturedDumpe2fs("/dev/sda"))
    detail = "it would read every bitmap of the device"
    assert answer == Unknown("dumpe2fs /dev/sda", Why.UNSUPPORTED, detail)
