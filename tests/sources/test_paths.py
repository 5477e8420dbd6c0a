"""What a path leads to, on the machine that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import RealPath, ResolvePath, StatFilesystem
from ext4audit.sources.live import LiveSource


def resolve(path: str) -> dict[str, str]:
    """Resolve a path that exists."""
    answer = LiveSource().fetch(ResolvePath(path))
    assert isinstance(answer, Known)
    return dict(line.split("=", 1) for line in answer.value.split("\n"))


def mount_points() -> dict[str, str]:
    """Read the mount point of each mount id."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    return {line.split()[0]: line.split()[4] for line in lines}


def test_the_mount_id_is_the_key_to_mountinfo() -> None:
    """A path below /proc lies on the mount whose mount point is /proc."""
    assert mount_points()[resolve("/proc/version")["mount_id"]] == "/proc"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/proc/version", "file"), ("/proc", "directory"), ("/dev/null", "other")],
)
def test_a_target_has_a_type(path: str, kind: str) -> None:
    """Files, directories and everything else are told apart; `represents` is for devices."""
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


def test_a_symbolic_link_leads_to_its_target(tmp_path: Path) -> None:
    """What is resolved is the target, whatever the link's name holds."""
    link = os.fsencode(tmp_path) + b"/\xff\n--help"
    name = link.decode("utf-8", "surrogateescape")
    Path(name).symlink_to("/proc")
    assert mount_points()[resolve(name)["mount_id"]] == "/proc"
    assert LiveSource().fetch(RealPath(name)) == Known("/proc", f"path {name}")


@pytest.mark.parametrize("ask", [ResolvePath, RealPath])
def test_a_missing_path_is_absent(ask: type[ResolvePath | RealPath], tmp_path: Path) -> None:
    """A path that does not exist is absent, and a dangling link is no better."""
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("missing", "dangling", "missing/below"):
        path = str(tmp_path / name)
        hole = Unknown(f"path {path}", Why.ABSENT, "No such file or directory")
        assert LiveSource().fetch(ask(path)) == hole


@pytest.mark.parametrize("ask", [ResolvePath, RealPath])
def test_a_chain_of_links_without_end_is_refused(
    ask: type[ResolvePath | RealPath], tmp_path: Path
) -> None:
    """Two thousand links in a row end in the kernel's ELOOP, not in Python's stack."""
    (tmp_path / "0").symlink_to("/proc")
    for number in range(1, 2000):
        (tmp_path / str(number)).symlink_to(tmp_path / str(number - 1))
    path = str(tmp_path / "1999")
    hole = Unknown(f"path {path}", Why.FAILED, "Too many levels of symbolic links")
    assert LiveSource().fetch(ask(path)) == hole


def test_a_file_that_nobody_may_read_is_resolved(tmp_path: Path) -> None:
    """Nothing is opened, so the permission to read is not needed, and a FIFO cannot hang."""
    os.mkfifo(tmp_path / "fifo", 0)
    assert resolve(str(tmp_path / "fifo"))["type"] == "other"


STACKED = """
mount -t tmpfs lower "$1" && mount -t tmpfs upper "$1" && exec "$2" -c '
import sys
from ext4audit.sources.ask import ResolvePath
from ext4audit.sources.live import LiveSource
print(LiveSource().fetch(ResolvePath(sys.argv[1])).value.split("\\n")[0])
print(open("/proc/self/mountinfo").read())
' "$1"
"""


@pytest.mark.kernel
def test_of_stacked_mounts_the_upper_one_is_found(tmp_path: Path) -> None:
    """Two filesystems on one mount point are told apart by the mount id."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", STACKED, "sh", str(tmp_path), sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    first, *table = done.stdout.splitlines()
    ids = {line.split()[8]: line.split()[0] for line in table if f" {tmp_path} " in line}
    assert first == f"mount_id={ids['upper']}"
    assert ids["upper"] != ids["lower"]


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


def test_there_is_no_space_where_nothing_is(tmp_path: Path) -> None:
    """A mount point that has gone is absent."""
    answer = LiveSource().fetch(StatFilesystem(str(tmp_path / "gone")))
    assert isinstance(answer, Unknown)
    assert answer.why is Why.ABSENT
