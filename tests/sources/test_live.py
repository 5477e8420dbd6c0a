"""The live source as a whole, on the machine that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import (
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
)
from ext4audit.sources.live import LiveSource

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
    """Nothing raises for what a host lacks; the origin, or what is missing, is the ask."""
    answer = LiveSource().fetch(ask)
    name = answer.what if isinstance(answer, Unknown) else answer.origin
    assert name == describe(ask)


def test_one_scan_reads_a_file_once(tmp_path: Path) -> None:
    """What is asked again is answered as before; a new scan looks again."""
    path = tmp_path / "file"
    path.write_text("before")
    ask, source = ReadFile(str(path)), LiveSource()
    assert source.fetch(ask) == Known("before", str(path))
    path.write_text("after")
    assert source.fetch(ask) == Known("before", str(path))
    assert LiveSource().fetch(ask) == Known("after", str(path))


def test_a_hole_is_remembered_too(tmp_path: Path) -> None:
    """A file that appears during a scan does not make two rules see two hosts."""
    ask, source = ReadFile(str(tmp_path / "late")), LiveSource()
    first = source.fetch(ask)
    (tmp_path / "late").write_text("x")
    assert source.fetch(ask) == first


AS_NOBODY = """
import os, sys
import psutil, pyudev
from ext4audit.sources.ask import *
from ext4audit.sources.live import LiveSource
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
answer = LiveSource().fetch(eval(sys.argv[1]))
print(ascii(answer))
"""


def as_nobody(ask: Ask) -> str:
    """Ask as a user without privileges; the libraries may lie where only root can read."""
    return subprocess.check_output([sys.executable, "-c", AS_NOBODY, repr(ask)], text=True).strip()


def test_without_privileges_a_closed_file_is_denied(tmp_path: Path) -> None:
    """The hint says that root could read it."""
    path = tmp_path / "closed"
    path.touch(0)
    hole = Unknown(str(path), Why.DENIED, "Permission denied", "run as root")
    assert as_nobody(ReadFile(str(path))) == ascii(hole)


def test_without_privileges_dumpe2fs_is_denied(tmp_path: Path) -> None:
    """The detail is the line of dumpe2fs that tells the cause."""
    image = tmp_path / "image"
    image.touch(0)
    if isinstance(LiveSource().fetch(RunCommand(("dumpe2fs", "-V"))), Unknown):
        pytest.skip("no dumpe2fs")
    detail = f"dumpe2fs: Permission denied while trying to open {image} (exit status 13)"
    hole = Unknown(f"dumpe2fs -h {image}", Why.DENIED, detail, "run as root")
    assert as_nobody(RunCommand(("dumpe2fs", "-h", str(image)))) == ascii(hole)


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
    """Root is needed for the superblock's device only."""
    assert as_nobody(ask).startswith("Known(")


def test_without_privileges_the_superblock_ioctl_answers() -> None:
    """Anybody who can open the mount point gets the 232 bytes, where the kernel has them."""
    privileged = LiveSource().fetch(TuneSuperblock("/"))
    if isinstance(privileged, Unknown):
        pytest.skip(f"no ext4 with the request at /: {privileged.detail}")
    assert as_nobody(TuneSuperblock("/")).startswith("Known(value=b")


def test_the_effective_user_is_the_one_that_asks() -> None:
    """A source without privileges says so."""
    if os.geteuid() != 0:
        pytest.skip("dropping privileges needs root")
    assert as_nobody(EffectiveUser()) == "Known(value='65534', origin='effective user')"
