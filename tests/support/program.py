"""Run the program as a user runs it: a process with streams and an environment of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

import pytest

from ext4audit.__main__ import main
from support.mounts import mount_table

CLEARED = "NO_COLOR FORCE_COLOR CLICOLOR_FORCE TERM COLUMNS PYTHONIOENCODING LC_ALL".split()
READ_AT_START = ("PYTHON", "LC_", "LANG")
"""What begins the names of the variables by which an interpreter starts otherwise."""
SECONDS = 60
"""Far more than any command takes; a test that hangs must fail."""

AS_NOBODY = """
import difflib, importlib, os, pkgutil, sys
import ext4audit, pyudev, rich.cells, rich.console, rich.status
for module in pkgutil.walk_packages(ext4audit.__path__, "ext4audit."):
    if module.name not in ("ext4audit.__main__", "ext4audit.sources.ansible.snapshot_action"):
        importlib.import_module(module.name)
from ext4audit.cli import run_program
from ext4audit.facts import read_table
from ext4audit.facts.knowledge import TABLES
from ext4audit.rules import all_rules
for table in TABLES.values():
    read_table(table.file)
all_rules()
rich.cells.cell_len("\\u4e00")
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
sys.exit(run_program(sys.argv[1:]))
"""
"""The interpreter may lie where only root can read it, so privileges are dropped after it loads."""


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without what steers colour, width and encoding."""
    kept = {name: value for name, value in os.environ.items() if name not in CLEARED}
    return {**kept, "LANG": "C.UTF-8", **changes}


def run(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit ARGUMENTS` in a process of its own and return how it ended.

    The process is a copy of this one, which has loaded most of the program: that takes a fifth of
    the time of a new interpreter. What decides how an interpreter starts gets a new one.
    """
    if options or any(name.startswith(READ_AT_START) for name in env or {}):
        return run_new(*arguments, env=env, cwd=cwd, **options)
    with TemporaryFile() as stdout, TemporaryFile() as stderr:
        child = _fork()
        if child == 0:
            _become_the_program(arguments, env, cwd, (stdout.fileno(), stderr.fileno()))
        code = _exit_code(child)
        texts = [_read_text(file) for file in (stdout, stderr)]
    return subprocess.CompletedProcess(["ext4audit", *arguments], code, *texts)


def run_new(
    *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit ARGUMENTS` in a new interpreter and return how it ended."""
    return run_python("-m", "ext4audit", *arguments, env=env, **options)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns where there are threads: pytest-xdist's only waits for messages.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become_the_program(
    arguments: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    streams: tuple[int, int],
) -> NoReturn:
    """Do what `python -m ext4audit` does, with the streams that an interpreter makes."""
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        for number, target in zip((null, *streams), range(3), strict=True):
            os.dup2(number, target)
        sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        os.environ.clear()
        os.environ.update(environment(**(env or {})))
        os.chdir(cwd or ".")
        warnings.resetwarnings()
        sys.argv = ["ext4audit", *arguments]
        main()
    except BaseException:  # noqa: BLE001 - a child must not go on as the test
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _exit_code(child: int) -> int:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"it ran longer than {SECONDS} s")


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def run_python(
    *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter; both streams are captured unless told otherwise."""
    streams = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **options,
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**(env or {})),
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
        **streams,
    )


def run_as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as the user 65534, who may read nothing that is not public."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return run_python("-c", AS_NOBODY, *arguments)


def root_fstype() -> str:
    """Return the filesystem type of the last mount on /."""
    return [line.fstype for line in mount_table() if line.mount_point == "/"][-1]
