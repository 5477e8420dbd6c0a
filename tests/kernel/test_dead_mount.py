"""A file system whose server has died: FUSE without a daemon answers nothing, not even stat(2).

Each command is given a path on it, in each place where it takes one.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit.cli import run_program
from support.mounts import MNT_DETACH

pytestmark = pytest.mark.kernel

WAITS = (
    "sources.live.paths.LONGEST_WAIT_SECONDS",
    "cli.layout.TIMEOUT_SECONDS",
)
"""How long the program waits for one answer; usually 20 s and more."""
SHORT_SECONDS = 0.2


@pytest.fixture
def dead(
    tmp_path: Path,
    private_mounts: None,  # noqa: ARG001 - a fixture that acts
) -> Iterator[Path]:
    """Mount a file system that answers no request; when it is closed, all of them fail."""
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0"
    place = os.fsencode(tmp_path)
    assert libc.mount(b"dead", place, b"fuse", 0, options.encode()) == 0
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
def test_a_path_that_does_not_answer_is_given_up(
    words: list[str],
    dead: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is an error of usage that names the path; nothing waits for a server."""
    for name in WAITS:
        monkeypatch.setattr(f"ext4audit.{name}", SHORT_SECONDS)
    began = time.monotonic()
    assert run_program([word.format(dead) for word in words]) == 2
    message = capsys.readouterr().err
    assert str(dead) in message
    assert "no answer within" in message
    assert time.monotonic() - began < 10
