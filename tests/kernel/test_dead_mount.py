"""Unresponsive file systems: one without a server, and one whose server stops.

Each command is given a path on the first, in each place where it takes one; without a server FUSE
answers nothing, not even stat(2). The second accepts requests and does not answer: no signal
ends a process that waits for one, but the program must still end.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ext4audit.cli import run_program
from ext4audit.sources import timeouts
from support.filesystems.mounts import MNT_DETACH
from support.hanging import fuse_server
from support.hanging.short_timeouts import receive_with_short_timeout
from support.hosts.fixture_hosts import HOSTS
from support.program import run_python

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("dead mounts")]

WAITS = (
    "sources.timeouts.LONGEST_WAIT_SECONDS",
    "cli.layout.TIMEOUT_SECONDS",
)
"""Limits on the program's wait for one answer, which are usually 20 s or more."""
SHORT_SECONDS = 0.2


@pytest.fixture
def dead(
    tmp_path: Path,
    private_mounts: None,  # noqa: ARG001 - a fixture that acts
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """Mount a file system that answers no request; closing it makes all of them fail.

    The program's wait for it is shortened, and no other wait.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0"
    place = os.fsencode(tmp_path)
    assert libc.mount(b"dead", place, b"fuse", 0, options.encode()) == 0
    requests = select.poll()
    requests.register(server, select.POLLIN)
    monkeypatch.setattr(
        timeouts._Helper, "_receive", receive_with_short_timeout(lambda: bool(requests.poll(0)))
    )
    for name in WAITS:
        monkeypatch.setattr(f"ext4audit.{name}", SHORT_SECONDS)
    yield tmp_path
    os.close(server)
    libc.umount2(place, MNT_DETACH)


@pytest.mark.parametrize(
    "words",
    [
        ["scan", "--timeout", "1", "{}"],
        ["scan", "--timeout", "1", "{}/image"],
        ["scan", "--from", "{}/snapshot.tar"],
        ["scan", "--config", "{}/policy.toml"],
        ["scan", "--baseline", "{}/report.json"],
        ["scan", "-f", "json", "-o", "{}/report.json"],
        ["scan", "-f", "json", "-o", "{}/a", "-f", "csv", "-o", "{}/b"],
        ["fix", "-o", "{}/fix.sh"],
        ["fix", "--from", "{}/snapshot.tar"],
        ["collect", "--timeout", "1", "{}/image"],
        ["collect", "-o", "{}/snapshot.tar"],
        ["diff", "{}/old.json", "{}/new.json"],
        ["layout", "{}/image"],
        ["layout", "/", "-o", "{}/layout.svg"],
        ["plan", "{}/plan.toml"],
        ["plan", "--size", "1T", "--from", "{}/snapshot.tar"],
        ["plan", "--size", "1T", "--mke2fs-conf", "{}/mke2fs.conf"],
        ["plan", "--size", "1T", "-o", "{}/plan.json"],
    ],
    ids=" ".join,
)
def test_hanging_path_is_a_usage_error(
    words: list[str], dead: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a usage error that names the path; nothing waits for a server."""
    assert run_program([word.format(dead) for word in words]) == 2
    message = capsys.readouterr().err
    assert str(dead) in message
    assert "no answer within" in message


STOPPED = "stopped"
"""File beside the mount that the server creates when it accepts a request without answering."""
TOLD = re.compile("no answer within|not read within the 1 s limit of the audit")
Hang = Callable[[str, int], Path]


@pytest.fixture
def hang(tmp_path: Path, private_mounts: None) -> Iterator[Hang]:  # noqa: ARG001
    """Mount a FUSE server of a snapshot, packed and unpacked, that stops after some requests."""
    started: list[subprocess.Popen[str]] = []
    place, top = tmp_path / "mount", tmp_path / "top"
    place.mkdir()
    shutil.copytree(HOSTS / "lvm-striped" / "snapshot", top / "snapshot")
    subprocess.run(["tar", "-czf", "snapshot.tar.gz", "snapshot"], cwd=top, check=True)

    def start(request: str, count: int) -> Path:
        words = [sys.executable, fuse_server.__file__, str(place), str(top), request, str(count)]
        words.append(str(tmp_path / STOPPED))
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        started.append(server)
        assert server.stdout is not None
        assert server.stdout.readline() == "mounted\n"
        return place

    yield start
    for server in started:
        server.kill()
        server.communicate()
        ctypes.CDLL(None).umount2(os.fsencode(place), MNT_DETACH)


def ended(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a process, which must end although its path never answers."""
    short = ("-m", "support.hanging.short_timeouts", "1", str(place.parent / STOPPED))
    return run_python(*short, *words, cwd=Path(__file__).parents[1])


@pytest.mark.parametrize(
    ("request_kind", "count", "words", "code"),
    [
        ("lookup", 0, ["scan", "--timeout", "1", "{}/image"], 2),
        ("lookup", 0, ["layout", "--deadline", "1", "{}/image"], 2),
        ("lookup", 0, ["scan", "--config", "{}/policy.toml"], 2),
        ("getattr", 1, ["scan", "--from", "{}/snapshot"], 2),
        ("opendir", 0, ["scan", "--from", "{}"], 2),
        ("lookup", 7, ["scan", "--from", "{}/snapshot"], 2),
        ("read", 0, ["scan", "--from", "{}/snapshot"], 2),
        ("read", 3, ["scan", "--from", "{}/snapshot"], 2),
        ("read", 0, ["scan", "--from", "{}/snapshot.tar.gz"], 2),
        ("read", 1, ["scan", "--from", "{}/snapshot.tar.gz"], 2),
        ("release", 0, ["scan", "--from", "{}/snapshot.tar.gz"], 1),
        ("create", 0, ["scan", "-f", "json", "-o", "{}/report"], 70),
        ("write", 0, ["scan", "-f", "json", "-o", "{}/report"], 70),
        ("fsync", 0, ["scan", "-f", "json", "-o", "{}/report"], 70),
        ("write", 0, ["collect", "-o", "{}/collected"], 70),
    ],
)
def test_stopped_server_does_not_block_the_program(
    request_kind: str, count: int, words: list[str], code: int, hang: Hang
) -> None:
    """No matter which request is the last, the program reports it and its process ends."""
    place = hang(request_kind, count)
    done = ended(place, *(word.format(place) for word in words))
    assert done.returncode == code, done.stderr
    assert str(place) in done.stdout + done.stderr or code == 1
    assert TOLD.search(done.stderr) or code == 1
    assert "Traceback" not in done.stderr


def test_fuse_server_answers_until_it_stops(hang: Hang) -> None:
    """It serves until it stops: otherwise the tests above would prove nothing."""
    place = hang("write", 1)
    done = ended(place, "scan", "-q", "--from", str(place / "snapshot"))
    assert done.stdout.startswith("mount: 1 filesystem:"), done.stderr
    assert ended(place, "scan", "-q", "--from", str(place / "snapshot.tar.gz")).returncode == 1
