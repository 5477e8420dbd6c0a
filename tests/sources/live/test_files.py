"""What a path leads to, on the machine that runs the tests."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Truncated, Unknown, Why
from ext4audit.sources import (
    CapturedDumpe2fs,
    EndsEarly,
    ReadBytes,
    RealPath,
    ResolvePath,
    StatFilesystem,
)
from ext4audit.sources.live import LiveSource
from support.filesystems.mounts import mount_table
from support.filesystems.scratch import Scratch


def resolve(path: str) -> dict[str, str]:
    """Resolve a path that exists."""
    answer = LiveSource().fetch(ResolvePath(path))
    assert isinstance(answer, Known)
    return dict(line.split("=", 1) for line in answer.value.split("\n"))


def test_mount_id_of_a_path() -> None:
    """A path below /proc lies on the mount whose mount point is /proc."""
    mount_points = {line.mount_id: line.mount_point for line in mount_table()}
    assert mount_points[resolve("/proc/version")["mount_id"]] == "/proc"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/proc/version", "file"), ("/proc", "directory"), ("/dev/null", "other")],
)
def test_a_target_has_a_type(path: str, kind: str) -> None:
    """Files, directories and everything else are distinguished; `represents` is for devices."""
    found = resolve(path)
    assert (found["type"], "represents" in found) == (kind, False)


def test_a_block_device_node_represents_a_device() -> None:
    """The number of the device is beside that of the filesystem that holds the node."""
    devices = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    if not devices:
        pytest.skip("no block device node in /dev")
    found, status = resolve(str(devices[0])), devices[0].stat()
    assert found["type"] == "block"
    assert found["represents"] == f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    assert found["device_number"] == f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"


def test_symbolic_link_is_resolved(tmp_path: Path) -> None:
    """What is resolved is the target, whatever the link's name holds."""
    link = os.fsencode(tmp_path) + b"/\xff\n--help"
    name = link.decode("utf-8", "surrogateescape")
    Path(name).symlink_to("/proc")
    mount_points = {line.mount_id: line.mount_point for line in mount_table()}
    assert mount_points[resolve(name)["mount_id"]] == "/proc"
    assert LiveSource().fetch(RealPath(name)) == Known("/proc", f"path {name}")


@pytest.mark.parametrize("ask", [ResolvePath, RealPath])
def test_a_missing_path_is_absent(ask: type[ResolvePath | RealPath], tmp_path: Path) -> None:
    """A path that does not exist is absent, and a dangling link is no better."""
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("missing", "dangling", "missing/below"):
        path = str(tmp_path / name)
        expected = Unknown(f"path {path}", Why.ABSENT, "No such file or directory")
        assert LiveSource().fetch(ask(path)) == expected


@pytest.mark.parametrize("ask", [ResolvePath, RealPath])
def test_long_chain_of_links_is_refused(ask: type[ResolvePath | RealPath], tmp_path: Path) -> None:
    """Two thousand links in a row end in the kernel's ELOOP, not in Python's stack."""
    (tmp_path / "0").symlink_to("/proc")
    for number in range(1, 2000):
        (tmp_path / str(number)).symlink_to(tmp_path / str(number - 1))
    path = str(tmp_path / "1999")
    expected = Unknown(f"path {path}", Why.FAILED, "Too many levels of symbolic links")
    assert LiveSource().fetch(ask(path)) == expected


def test_a_file_that_nobody_may_read_is_resolved(tmp_path: Path) -> None:
    """Nothing is opened, so the permission to read is not needed, and a FIFO cannot hang."""
    os.mkfifo(tmp_path / "fifo", 0)
    assert resolve(str(tmp_path / "fifo"))["type"] == "other"


STACKED = """
mount -t tmpfs lower "$1" && mount -t tmpfs upper "$1" && exec "$2" -c '
import sys
from ext4audit.sources import ResolvePath
from ext4audit.sources.live import LiveSource
print(LiveSource().fetch(ResolvePath(sys.argv[1])).value.split("\\n")[0])
sys.stdout.write(open("/proc/self/mountinfo", errors="replace").read())
' "$1"
"""


@pytest.mark.kernel
def test_of_stacked_mounts_the_upper_one_is_found(tmp_path: Path) -> None:
    """Two filesystems on one mount point are distinguished by the mount id."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", STACKED, "sh", str(tmp_path), sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    first, *table = done.stdout.split("\n")
    ids = {line.split()[8]: line.split()[0] for line in table if f" {tmp_path} " in line}
    assert first == f"mount_id={ids['upper']}"
    assert ids["upper"] != ids["lower"]


OTHER_PROC = """
mount -t tmpfs none /proc && exec "$1" -c '
from ext4audit.sources import ReadBytes, ReadFile, ResolvePath
from ext4audit.sources.live import LiveSource
source = LiveSource()
for ask in (ReadFile("/etc/passwd"), ReadBytes("/etc/passwd", 0, 1), ResolvePath("/etc/passwd")):
    print(source.fetch(ask).why.value)
print(source.fetch(ReadFile("/etc/no-such-file")).why.value)
'
"""


@pytest.mark.kernel
def test_files_are_not_absent_without_a_matching_proc() -> None:
    """After `nsenter -m` /proc is of a PID namespace that does not have this program."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", OTHER_PROC, "sh", sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["failed", "failed", "failed", "absent"]


def test_space_is_that_of_the_filesystem_at_the_path() -> None:
    """Its device number stands before the numbers of statvfs(3)."""
    answer = LiveSource().fetch(StatFilesystem("/proc"))
    assert isinstance(answer, Known)
    number, *counts = answer.value.split(" ")
    status, space = Path("/proc").stat(), os.statvfs("/proc")
    assert number == f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    assert [int(count) for count in counts] == [
        space.f_frsize,
        space.f_blocks,
        space.f_bfree,
        space.f_bavail,
        space.f_files,
        space.f_ffree,
    ]


def test_usage_of_a_missing_mount_point_is_absent(tmp_path: Path) -> None:
    """A mount point that has gone is absent."""
    answer = LiveSource().fetch(StatFilesystem(str(tmp_path / "gone")))
    assert isinstance(answer, Unknown)
    assert answer.why is Why.ABSENT


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
def test_short_read_is_a_gap(image: str, offset: int, length: int, detail: str) -> None:
    """A part of what was asked for would be taken for all of it."""
    answer = LiveSource().fetch(ReadBytes(image, offset, length))
    what = f"{length} bytes at {offset} of {image}"
    is_short = "bytes are there" in detail
    assert answer == (Truncated if is_short else Unknown)(what, Why.FAILED, detail)


def test_a_short_read_keeps_its_kind_between_processes() -> None:
    """Files on a server are read in a helper process, whose exceptions are pickled."""
    again = pickle.loads(pickle.dumps(EndsEarly(2, 4)))  # noqa: S301 - made here
    assert again.unknown("it") == Truncated("it", Why.FAILED, "2 of 4 bytes are there")


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


def test_second_reading_reads_again(image: str) -> None:
    """One reading of a place is one answer; the next reading is another ask."""
    source = LiveSource()
    first = source.fetch(ReadBytes(image, 0, 1))
    Path(image).write_bytes(b"new")
    assert source.fetch(ReadBytes(image, 0, 1)) == first
    again = source.fetch(ReadBytes(image, 0, 1, reading=1))
    assert again == Known(b"n", f"1 bytes at 0 of {image}")


def test_large_answers_are_not_cached(image: str) -> None:
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
    """The hint is to run as root."""
    path = tmp_path / "closed"
    path.touch(0)
    script = (
        "import os, sys\n"
        "from ext4audit.sources import ReadBytes\n"
        "from ext4audit.sources.live import LiveSource\n"
        "os.geteuid() or os.setresuid(65534, 65534, 65534)\n"
        "print(LiveSource().fetch(ReadBytes(sys.argv[1], 0, 1)))\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", script, str(path)], text=True)
    what = f"1 bytes at 0 of {path}"
    assert printed.strip() == str(Unknown(what, Why.DENIED, "Permission denied", "run as root"))


def test_plain_dumpe2fs_is_never_run() -> None:
    """Without options dumpe2fs reads every bitmap; only archives answer this ask."""
    answer = LiveSource().fetch(CapturedDumpe2fs("/dev/sda"))
    detail = "it would read every bitmap of the device"
    assert answer == Unknown("dumpe2fs /dev/sda", Why.UNSUPPORTED, detail)
