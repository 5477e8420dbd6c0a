"""Run the shell collector as its users do, and compare its answers with the live source."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ext4audit import __version__
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.mount import DeviceNumber
from ext4audit.sources import (
    Answer,
    Ask,
    CapturedDumpe2fs,
    FilesystemUuid,
    ListDir,
    ReadFile,
    StatFilesystem,
    TuneSuperblock,
    VirtualMemory,
)
from ext4audit.sources import decode as decode_text
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot import decode
from ext4audit.sources.snapshot.collector import collect_script
from ext4audit.sources.snapshot.writing import RecordingSource
from support.examples import share_of
from support.timing import PATIENCE_SECONDS, wait_until

SCRIPT = collect_script(__version__)
SCRIPT_WITHOUT_WAIT = SCRIPT.replace("\nlong /proc/self/mountinfo\n", "\nreturn\n")
"""A script that captures only user, kernel and memory, and otherwise works as usual."""
assert SCRIPT_WITHOUT_WAIT != SCRIPT
SHELLS = ("dash", "bash", "busybox sh")
TRIES = 4
"""Maximum number of comparisons: mounts of other tests may come and go between two scans."""

LISTS_OF_FILESYSTEMS = ("/proc/fs/ext4", "/sys/fs/ext4")
NOT_FOR_A_SHELL = (TuneSuperblock, FilesystemUuid, CapturedDumpe2fs)
TAKEN_AT = "2026-01-02T03:04:05Z"

some_shells = pytest.mark.parametrize("shell", SHELLS[: share_of(len(SHELLS))])
"""A mark for tests of shells: dash, which is /bin/sh on Debian, and all of SHELLS in CI."""


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
"""Command prefix that runs a command as an unprivileged user; requires root."""


def collect(
    shell: str,
    *options: str,
    script: str = SCRIPT,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the script from the standard input of a shell, as `ssh HOST sudo sh -s` does."""
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"needs {words[0]}")
    return subprocess.run(
        [*wrapper, *words, "-s", "--", *options],
        input=script.encode(),
        capture_output=True,
        env={**os.environ, **(environment or {})},
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@functools.cache
def collected_once(shell: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script once per process and return the result, for tests that only read it."""
    return collect(shell, *options)


def changed(script: str, *changes: tuple[str, str]) -> str:
    """Return the script with some texts replaced, each of which must occur exactly once."""
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


def with_seconds(script: str, seconds: str) -> str:
    """Return the script with a time limit of 20 times `seconds`."""
    return changed(
        script,
        ("\nsleep 1 4>&-\n", f"\nsleep {seconds} 4>&-\n"),
        ("\nwhile sleep 1&&", f"\nwhile sleep {seconds}&&"),
    )


def with_one_second_limit(script: str, command: str, *, after: str = "") -> str:
    """Return the script with a time limit of a second for one command, a line that occurs once.

    Other commands keep their limit: on a busy machine, some of them take a second. `after` is a
    line after the command that also gets the short limit.
    """
    lines = f"\n{command}\n{after}"
    return changed(
        with_seconds(script, "${pace-1}"), (lines, f"\npace=.05\n{command}\n{after}\npace=1\n")
    )


def status_after(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send a signal to a shell that runs a command until the shell ends; return its status.

    The first is sent when the shell sleeps, others twice a second: shells lose signals between two
    commands. In its first 30 ms, bash 5.2 ignored a SIGINT sent to it alone in 10 of 523 runs.
    """

    def has_ended() -> bool:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        return process.returncode is not None

    assert wait_until(lambda: _is_asleep(process.pid))
    assert wait_until(has_ended)
    return int(process.returncode)


def _is_asleep(pid: int) -> bool:
    """Return whether a process sleeps interruptibly (state S, proc_pid_stat(5)).

    bash sleeps in wait4(2), dash and busybox in sigsuspend(2).
    """
    stat_line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return stat_line.rpartition(")")[2].split()[0] == "S"


def manifest(done: subprocess.CompletedProcess[bytes]) -> bytes:
    """Return the manifest that a successful run without options printed."""
    assert (done.returncode, done.stderr) == (0, b"")
    return gzip.decompress(done.stdout)


def entries(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    """Return the raw entries of the manifest."""
    found: list[dict[str, Any]] = json.loads(decode_text(manifest(done)))["answers"]
    return found


def manifest_answers(content: bytes) -> dict[Ask, Answer]:
    """Return the answers in a manifest."""
    return decode(content, _no_file)[0]


def captured(shell: str, *options: str, script: str = SCRIPT) -> dict[Ask, Answer]:
    """Return the answers that the script captures."""
    return manifest_answers(manifest(collect(shell, *options, script=script)))


def live(only: Collection[DeviceNumber] | None = None) -> Mapping[Ask, Answer]:
    """Return the answers of a live scan."""
    recorder = RecordingSource(LiveSource())
    assemble_host(recorder, TAKEN_AT, only=only)
    return recorder.answers


def differing_answers(
    shell: str, only: Collection[DeviceNumber] | None = None, *, script: str = SCRIPT
) -> dict[Ask, tuple[Answer, Answer | None]]:
    """Return the asks that the script and the live source answer differently, with both answers.

    The live source answers before and after the script. Answers that changed meanwhile, that can
    never be equal, or that are equal in another try are left out. With `only`, lists of all
    filesystems are limited to these devices: those of other tests come and go at any time.
    """
    found: dict[Ask, tuple[Answer, Answer | None]] = {}
    looked_at = None if only is None else {_name_of(number) for number in only}
    for attempt in range(TRIES):
        before, sent, after = live(only), captured(shell, script=script), live(only)
        differing = differences(before, sent, after, looked_at)
        found = {ask: differing[ask] for ask in differing if attempt == 0 or ask in found}
        if not found:
            break
    return found


def differences(
    before: Mapping[Ask, Answer],
    sent: Mapping[Ask, Answer],
    after: Mapping[Ask, Answer],
    looked_at: Collection[str] | None = None,
) -> dict[Ask, tuple[Answer, Answer | None]]:
    """Return the live answers, equal before and after, that differ from those of the script.

    Answers that can never be equal are left out, and from lists of filesystems the loop devices
    that are not in `looked_at`.
    """
    return {
        ask: (answer, sent.get(ask))
        for ask, answer in before.items()
        if after.get(ask) == answer
        and _without_others(ask, answer, looked_at)
        != _without_others(ask, sent.get(ask), looked_at)
        and not _is_volatile(ask)
    }


def _name_of(number: DeviceNumber) -> str:
    """Return the kernel's name of a block device."""
    return Path(f"/sys/dev/block/{number}").resolve().name


def _without_others(
    ask: Ask, answer: Answer | None, looked_at: Collection[str] | None
) -> Answer | None:
    """Return an answer; from a list of filesystems, loop devices not in `looked_at` are removed."""
    is_list = isinstance(ask, ListDir) and ask.path in LISTS_OF_FILESYSTEMS
    if not is_list or looked_at is None or not isinstance(answer, Known):
        return answer
    names = [
        name
        for name in str(answer.value).split("\0")
        if name in looked_at or not name.startswith("loop")
    ]
    return Known("\0".join(names), answer.origin)


def without_ioctls(answers: Mapping[Ask, Answer]) -> dict[Ask, Answer]:
    """Return live answers as a shell can get them: without those of the two ioctls."""
    return {
        ask: Unknown("", Why.NOT_CAPTURED) if isinstance(ask, NOT_FOR_A_SHELL) else answer
        for ask, answer in answers.items()
    }


def leftovers(directory: Path) -> list[str]:
    """Return the names of the files that the script left in its TMPDIR."""
    return sorted(path.name for path in directory.iterdir())


def _is_volatile(ask: Ask) -> bool:
    """Return whether two answers to an ask are never equal, or a shell cannot answer it."""
    if isinstance(ask, ReadFile):
        return ask.path.startswith("/proc/") and ask.path.split("/")[2].isdecimal()
    return isinstance(ask, (*NOT_FOR_A_SHELL, VirtualMemory, StatFilesystem)) or ask == ListDir(
        "/proc"
    )


def _no_file(name: str) -> bytes:
    raise AssertionError(f"the script's snapshot is one file, and has no {name}")
