"""The live source as a whole, on the machine that runs the tests."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import (
    Ask,
    CapturedDumpe2fs,
    EffectiveUser,
    FilesystemUuid,
    ListDir,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    TuneSuperblock,
    UdevDatabase,
    Uname,
    VirtualMemory,
    describe,
    live,
)
from ext4audit.sources.live import LiveSource
from ext4audit.sources.live.files import LARGEST_FILE_BYTES
from ext4audit.sources.timeouts import WaitBudget
from support.timing import HANG_SECONDS, PATIENCE_SECONDS, assert_no_waiting, hang

HOSTILE = [b"a b", b"new\nline", b"\x1b[31m", b"$(id)", b"[red]", b"\xff", b"-rf", b"::error x"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_name(tmp_path: Path, name: bytes) -> None:
    """A file of any name is read, and its directory lists the name unchanged."""
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


@pytest.mark.parametrize(
    "ask", [ReadFile("/proc/mounts"), ListDir("/"), RunCommand(("lsblk",)), ResolvePath("/")]
)
def test_ask_after_the_deadline_is_unknown(ask: Ask) -> None:
    """The ask times out, whatever the answer would be; only the host's identity is still known."""
    source = LiveSource(deadline_seconds=0)
    answer = source.fetch(ask)
    assert isinstance(answer, Unknown)
    assert (answer.why, answer.hint) == (Why.TIMED_OUT, "use a longer --deadline")
    assert answer.detail == "not read within the 0 s limit of the audit"
    assert isinstance(source.fetch(Uname()), Known)


def test_timeout_is_limited_by_the_deadline(tmp_path: Path) -> None:
    """The last program of an audit is stopped at the deadline."""
    tool(tmp_path, "lsblk", f"sleep {HANG_SECONDS}")
    source = LiveSource(HANG_SECONDS, deadline_seconds=0.3, search_path=(str(tmp_path),))
    with assert_no_waiting():
        answer = source.fetch(RunCommand(("lsblk",)))
    assert isinstance(answer, Unknown)
    assert answer.why is Why.TIMED_OUT


class WithTheHealthy(WaitBudget):
    """A budget with no limit for what answers, since a busy machine may need a second."""

    def seconds(self, means: str, place: str) -> float:
        """Return the remaining time for what hangs, and a long time for everything else."""
        left = super().seconds(means, place)
        return left if "/dev/dead" in place else PATIENCE_SECONDS


@pytest.fixture
def patient_with_the_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only programs for devices named "dead…" run out of time."""
    monkeypatch.setattr(live, "WaitBudget", WithTheHealthy)


@pytest.mark.usefixtures("patient_with_the_healthy")
def test_hanging_disk_does_not_hide_others(tmp_path: Path) -> None:
    """A program that hung is not run again for that disk, but is run for all others."""
    runs = tmp_path / "runs"
    runs.touch()
    hung = f"[ $2 = /dev/dead ] && {{ echo >> {runs}; sleep {HANG_SECONDS}; }}; echo $2"
    tool(tmp_path, "dumpe2fs", hung)
    while not runs.read_text():  # half a second can pass before the program has started
        source = LiveSource(0.5, search_path=(str(tmp_path),))
        first = source.fetch(RunCommand(("dumpe2fs", "-h", "/dev/dead")))
    again = source.fetch(RunCommand(("dumpe2fs", "-g", "/dev/dead")))
    assert isinstance(first, Unknown)
    assert isinstance(again, Unknown)
    assert (first.why, again.why) == (Why.TIMED_OUT, Why.TIMED_OUT)
    assert again.detail == (
        "not asked again: dumpe2fs hung before (dumpe2fs /dev/dead: no answer within 0.5 s)"
    )
    assert runs.read_text() == "\n"
    healthy = RunCommand(("dumpe2fs", "-h", "/dev/healthy"))
    assert source.fetch(healthy) == Known("/dev/healthy\n", "dumpe2fs -h /dev/healthy")


@pytest.mark.usefixtures("patient_with_the_healthy")
def test_wait_for_many_hanging_disks_is_bounded(tmp_path: Path) -> None:
    """Each disk gets a shorter wait than the one before, then none; other programs still run.

    A busy machine may turn the three seconds into ten: one per disk would be a hundred.
    """
    tool(tmp_path, "dumpe2fs", f"sleep {HANG_SECONDS}")
    tool(tmp_path, "lsblk", "echo here")
    source = LiveSource(1, search_path=(str(tmp_path),))
    began = time.monotonic()
    answers = [source.fetch(RunCommand(("dumpe2fs", "-h", f"/dev/dead{n}"))) for n in range(100)]
    assert 2 < time.monotonic() - began < 60
    assert {answer.why for answer in answers if isinstance(answer, Unknown)} == {Why.TIMED_OUT}
    last = answers[99]
    assert isinstance(last, Unknown)
    assert re.fullmatch(
        r"not asked: dumpe2fs hung [0-9]+ times before, last dumpe2fs /dev/dead[0-9]+: no .*",
        last.detail,
    )
    assert source.fetch(RunCommand(("lsblk",))) == Known("here\n", "lsblk")


@pytest.mark.parametrize("ask", [ReadFile, ListDir])
def test_hanging_path_times_out(
    ask: type[ReadFile | ListDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """/etc can be on a server that is down."""
    for name in ("read_file", "list_directory"):
        monkeypatch.setattr(live.files, name, hang)
    answer = LiveSource(0.1).fetch(ask("/etc/fstab"))
    assert isinstance(answer, Unknown)
    assert (answer.why, answer.detail) == (Why.TIMED_OUT, "no answer within 0.1 s")


def tool(directory: Path, name: str, script: str) -> None:
    """Write an executable script."""
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def test_names_are_sorted_and_separated_by_nul(tmp_path: Path) -> None:
    """A directory lists its names in the same order on every host."""
    for name in ("b", "a\nc", "a"):
        (tmp_path / name).touch()
    assert LiveSource().fetch(ListDir(str(tmp_path))) == Known("a\0a\nc\0b", str(tmp_path))


def test_an_empty_directory_is_known_to_be_empty(tmp_path: Path) -> None:
    """An empty list of names is an answer."""
    assert LiveSource().fetch(ListDir(str(tmp_path))) == Known("", str(tmp_path))


def test_a_file_of_proc_is_read_by_its_content() -> None:
    """The size that stat reports (0) is ignored."""
    assert Path("/proc/self/mountinfo").stat().st_size == 0
    answer = LiveSource().fetch(ReadFile("/proc/self/mountinfo"))
    assert isinstance(answer, Known)
    assert " - " in answer.value


def test_a_file_at_the_limit_is_read_and_one_beyond_is_not(tmp_path: Path) -> None:
    """8 MiB are read; one byte more is a failure."""
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
def test_unreadable_paths_are_unknown_with_a_reason(path: str, why: Why, detail: str) -> None:
    """Reading does not raise: the Unknown has the host's message."""
    assert LiveSource().fetch(ReadFile(path)) == Unknown(path, why, detail)


def test_a_block_device_is_never_read() -> None:
    """A block device is rejected by its type, before it is opened."""
    devices = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    if not devices:
        pytest.skip("no block device node in /dev")
    path = str(devices[0])
    answer = LiveSource().fetch(ReadFile(path))
    assert answer == Unknown(path, Why.FAILED, "a block device, not a regular file")


@pytest.mark.usefixtures("own_helpers")
def test_nothing_stays_open(tmp_path: Path) -> None:
    """Neither an answer nor a refusal leaves a descriptor behind."""
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    gc.collect()  # descriptors left by earlier tests must not close meanwhile
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    for name in ("file", "fifo", "absent"):
        LiveSource().fetch(ReadFile(str(tmp_path / name)))
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208 - names only


def test_uname_has_four_lines_in_order() -> None:
    """Release, version, machine and node name agree with /proc and uname(1)."""
    answer = LiveSource().fetch(Uname())
    assert isinstance(answer, Known)
    release, version, machine, node = answer.value.split("\n", 3)
    assert release == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert version == Path("/proc/sys/kernel/version").read_text().strip()
    assert machine == subprocess.check_output(["uname", "-m"], text=True).strip()
    assert node == Path("/proc/sys/kernel/hostname").read_text().rstrip("\n")


def test_the_effective_user_is_a_number() -> None:
    """The answer is the effective user of this process."""
    assert LiveSource().fetch(EffectiveUser()) == Known(str(os.geteuid()), "effective user")


def test_memory_is_in_bytes() -> None:
    """The total is MemTotal of /proc/meminfo in bytes, and no more than that is available."""
    answer = LiveSource().fetch(VirtualMemory())
    assert isinstance(answer, Known)
    total, available = map(int, answer.value.split("\n"))
    kib = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
    assert total == int(kib) * 1024
    assert 0 < available <= total


def test_the_libraries_are_loaded_when_they_are_asked_for() -> None:
    """Importing the live source does not load pyudev and ctypes."""
    script = "import sys, ext4audit.sources.live as _; print(*sorted(sys.modules))"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True).split()
    assert {"pyudev", "ctypes"}.isdisjoint(loaded)
    assert "ext4audit.sources.live" in loaded


NOWHERE = "/no/such/\udcff\n\x1b[31m$(id)"


@pytest.mark.parametrize(
    "ask",
    [
        ReadFile(NOWHERE),
        ListDir(NOWHERE),
        RunCommand(("lsblk", "--", NOWHERE)),
        Uname(),
        VirtualMemory(),
        EffectiveUser(),
        UdevDatabase(NOWHERE),
        ResolvePath(NOWHERE),
        RealPath(NOWHERE),
        TuneSuperblock(NOWHERE),
        FilesystemUuid(NOWHERE),
        ReadBytes(NOWHERE, 1024, 1024, reading=1),
        CapturedDumpe2fs(NOWHERE),
    ],
)
def test_every_ask_is_answered_under_its_own_name(ask: Ask) -> None:
    """Missing parts of a host raise nothing; the origin, or what is missing, names the ask."""
    answer = LiveSource().fetch(ask)
    name = answer.what if isinstance(answer, Unknown) else answer.origin
    assert name == describe(ask)


def test_one_scan_reads_a_file_once(tmp_path: Path) -> None:
    """A repeated ask gets the same answer; a new scan reads the file again."""
    path = tmp_path / "file"
    path.write_text("before")
    ask, source = ReadFile(str(path)), LiveSource()
    assert source.fetch(ask) == Known("before", str(path))
    path.write_text("after")
    assert source.fetch(ask) == Known("before", str(path))
    assert LiveSource().fetch(ask) == Known("after", str(path))


def test_gaps_are_cached(tmp_path: Path) -> None:
    """A file that appears during a scan must not give two rules different hosts."""
    ask, source = ReadFile(str(tmp_path / "late")), LiveSource()
    first = source.fetch(ask)
    (tmp_path / "late").write_text("x")
    assert source.fetch(ask) == first


AS_NOBODY = """
import os, sys
import pyudev
from ext4audit.sources import *
from ext4audit.sources.live import LiveSource
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
answer = LiveSource().fetch(eval(sys.argv[1]))
print(ascii(answer))
"""


def as_nobody(ask: Ask) -> str:
    """Ask as an unprivileged user; the libraries may be readable by root only."""
    return subprocess.check_output([sys.executable, "-c", AS_NOBODY, repr(ask)], text=True).strip()


def test_without_privileges_a_closed_file_is_denied(tmp_path: Path) -> None:
    """The hint is to run as root."""
    path = tmp_path / "closed"
    path.touch(0)
    expected = Unknown(str(path), Why.DENIED, "Permission denied", "run as root")
    assert as_nobody(ReadFile(str(path))) == ascii(expected)


def test_without_privileges_dumpe2fs_is_denied(tmp_path: Path) -> None:
    """The detail is the line of dumpe2fs with the cause."""
    image = tmp_path / "image"
    image.touch(0)
    if isinstance(LiveSource().fetch(RunCommand(("dumpe2fs", "-V"))), Unknown):
        pytest.skip("no dumpe2fs")
    detail = f"dumpe2fs: Permission denied while trying to open {image} (exit status 13)"
    expected = Unknown(f"dumpe2fs -h {image}", Why.DENIED, detail, "run as root")
    assert as_nobody(RunCommand(("dumpe2fs", "-h", str(image)))) == ascii(expected)


@pytest.mark.parametrize(
    "ask",
    [
        ReadFile("/proc/self/mountinfo"),
        ListDir("/sys/block"),
        VirtualMemory(),
        ResolvePath("/proc"),
        RealPath("/proc/self/mounts"),
    ],
)
def test_without_privileges_most_is_known(ask: Ask) -> None:
    """Only the superblock on the device needs root."""
    assert as_nobody(ask).startswith("Known(")


def test_without_privileges_the_superblock_ioctl_answers() -> None:
    """Any user who can open the mount point gets the 232 bytes, if the kernel supports it."""
    privileged = LiveSource().fetch(TuneSuperblock("/"))
    if isinstance(privileged, Unknown):
        pytest.skip(f"no ext4 with the request at /: {privileged.detail}")
    assert as_nobody(TuneSuperblock("/")).startswith("Known(value=b")


def test_the_effective_user_is_the_one_that_asks() -> None:
    """A source without privileges reports its own user."""
    if os.geteuid() != 0:
        pytest.skip("dropping privileges needs root")
    assert as_nobody(EffectiveUser()) == "Known(value='65534', origin='effective user')"
