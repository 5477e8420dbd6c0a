"""Run the program as a user would: in a process with its own streams and environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from ext4audit.cli import COMMANDS, SHARED
from support import launcher
from support.filesystems.mounts import mount_table
from support.timing import PATIENCE_SECONDS

CLEARED_VARIABLES = (
    "NO_COLOR FORCE_COLOR CLICOLOR_FORCE TERM COLUMNS PYTHONIOENCODING LC_ALL".split()
)
_COMMANDS, _OPTIONS = "|".join(COMMANDS), "|".join(SHARED).replace("-", "_")
PROGRAM_VARIABLES = re.compile(
    rf"EXT4AUDIT_(?!FLEET_HOSTS$)(?:(?:{_COMMANDS})_\w+|{_OPTIONS}|NO_PAGER|FORMAT)|"
    r"GITHUB_STEP_SUMMARY|NO_COLOR|FORCE_COLOR|CLICOLOR_FORCE|COLUMNS|PYTHONIOENCODING|LC_\w+",
    re.IGNORECASE,
)
"""The variables that change the output of the program, or the language of shells and tools."""
STARTUP_PREFIXES = ("PYTHON", "LC_", "LANG")
"""Prefixes of the variables that an interpreter reads when it starts."""

AS_NOBODY = f"""
import itertools, os, sys
sys.path.append({str(Path(__file__).parents[1])!r})
from support import launcher
launcher.load_modules()
from ext4audit.cli import run_program
launcher.drop_privileges()
*others, last = (list(g) for is_end, g in itertools.groupby(sys.argv[1:], ";".__eq__) if not is_end)
for command in others:
    if os.fork() == 0:
        sys.exit(run_program(command))
    assert os.waitstatus_to_exitcode(os.wait()[1]) in range(4), command
sys.exit(run_program(last))
"""
"""Runs a command, or several with a `;` between them, as the user 65534.

The interpreter may be readable by root only, so privileges are dropped after it has loaded, which
takes longer than a scan.
"""


def affects_output(name: str) -> bool:
    """Return whether an environment variable changes what the program or a tool prints."""
    return PROGRAM_VARIABLES.fullmatch(name) is not None


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without variables for colour, width and encoding."""
    kept = {name: value for name, value in os.environ.items() if name not in CLEARED_VARIABLES}
    return {**kept, "LANG": "C.UTF-8", **changes}


def run(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    seconds: float = PATIENCE_SECONDS,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit ARGUMENTS` in a separate process, and return the completed process.

    The process is a fork of one that has loaded the program, which takes a tenth of the time of a
    new interpreter. If `env` has variables that an interpreter reads at start, a new one runs.
    """
    is_new = any(name.startswith(STARTUP_PREFIXES) for name in env or {})
    if is_new or not all(hasattr(stream, "fileno") for stream in options.values()):
        return run_new(*arguments, env=env, cwd=cwd, timeout=seconds, **options)
    try:
        return _run_copy(arguments, env, cwd, seconds=seconds, **options)
    except launcher.TooLargeError:
        return run_new(*arguments, env=env, cwd=cwd, timeout=seconds, **options)


def run_new(
    *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit ARGUMENTS` in a new interpreter, and return the completed process."""
    return run_python("-m", "ext4audit", *arguments, env=env, **options)


def _run_copy(
    arguments: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    *,
    as_nobody: bool = False,
    seconds: float = PATIENCE_SECONDS,
    **given: IO[bytes],
) -> subprocess.CompletedProcess[str]:
    """Run a copy of the loaded program; raises launcher.TooLargeError.

    The output of a stream in `given` is not returned.
    """
    with Path(os.devnull).open("rb") as null, TemporaryFile() as stdout, TemporaryFile() as stderr:
        own: dict[str, IO[bytes]] = {"stdin": null, "stdout": stdout, "stderr": stderr}
        try:
            code = launcher.run_copy(
                arguments,
                environment(**(env or {})),
                str(Path(cwd or ".").absolute()),
                streams=[stream.fileno() for stream in {**own, **given}.values()],
                as_nobody=as_nobody,
                seconds=seconds,
            )
        except launcher.TooLongError:
            raise AssertionError(f"it ran longer than {seconds} s") from None
        out = None if "stdout" in given else _read_text(stdout)
        return subprocess.CompletedProcess(["ext4audit", *arguments], code, out, _read_text(stderr))


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def run_python(
    *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter; both streams are captured unless `options` replace them."""
    streams = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "timeout": PATIENCE_SECONDS,
        **options,
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**(env or {})),
        encoding="utf-8",
        check=False,
        **streams,
    )


def run_as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as the user 65534, who can read only public files."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return _run_copy(arguments, None, None, as_nobody=True)


def root_fstype() -> str:
    """Return the filesystem type of the topmost mount on /, or "unlisted" in a plain chroot."""
    return ["unlisted", *(line.fstype for line in mount_table() if line.mount_point == "/")][-1]
