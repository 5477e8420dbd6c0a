"""The packages that .ci/release has built, and helpers to inspect them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DIST = Path(os.environ.get("EXT4AUDIT_DIST", ROOT / "dist"))
REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_PACKAGES") == "1"
"""Whether tests of the packages must run, as in CI: a skip would read as a pass."""
SECONDS = 300


def unavailable(reason: str) -> None:
    """Skip a test, or fail it if tests of packages must run."""
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def needs(program: str) -> str:
    """Return the path of a program; without it, the test is skipped or fails."""
    path = shutil.which(program)
    if path is None:
        unavailable(f"needs {program}")
    return path or ""


def run(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program and capture its output as text."""
    return subprocess.run(
        [os.fspath(word) for word in argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=seconds,
        env=env,
        cwd=cwd,
    )


def succeed(
    *argv: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run a program that must succeed, and return what it printed."""
    done = run(*argv, env=env, cwd=cwd)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@cache
def interpreters() -> tuple[str, ...]:
    """Return one interpreter of each installed version from 3.10 to 3.14."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for minor in range(10, 15):
        candidates = sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/python")))
        named = shutil.which(f"python3.{minor}")
        for path in [*candidates, *([named] if named else [])]:
            if run(path, "-c", "pass").returncode == 0:
                found.append(path)
                break
    return tuple(found)
