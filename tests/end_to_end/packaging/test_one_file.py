from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from ext4audit import __version__
from support.hosts.fixture_hosts import HOSTS
from support.packages.built import REQUIRED, interpreters, run, succeed
from support.timing import command_seconds

pytestmark = pytest.mark.packages

SNAPSHOT = HOSTS / "healthy-debian-12" / "snapshot"
ROUNDS = 5
MOST_INTERPRETER_STARTS = 120
"""Processor time of scanning a snapshot, which compiles all imported modules each time."""


def bare_environment(home: Path) -> dict[str, str]:
    """Return the environment of a host without installed libraries."""
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@pytest.mark.parametrize("python", interpreters())
def test_runs_with_only_an_interpreter(one_file: Path, tmp_path: Path, python: str) -> None:
    """It reads no site-packages, unpacks nothing, and reports the same as the wheel."""
    arguments = ["scan", "--from", f"host={SNAPSHOT}", "-f", "json"]
    packed = run(
        python, "-I", "-S", one_file, *arguments, env=bare_environment(tmp_path), cwd=tmp_path
    )
    plain = run(sys.executable, "-m", "ext4audit", *arguments)
    assert packed.returncode == plain.returncode == 0, packed.stderr
    assert json.loads(packed.stdout) == json.loads(plain.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("python", interpreters())
def test_scans_this_host_as_text_and_html(one_file: Path, tmp_path: Path, python: str) -> None:
    """This includes the libraries that only some formats load, and their data files."""
    formats = ["-f", "text", "-o", "-", "-f", "html", "-o", "out.html"]
    done = run(
        python, "-I", "-S", one_file, "scan", *formats, env=bare_environment(tmp_path), cwd=tmp_path
    )
    assert done.returncode in {0, 1, 3}, done.stderr
    assert done.stdout.splitlines()[-1].endswith("complete.")
    assert "</html>" in (tmp_path / "out.html").read_text()
    for command in (["explain", "DUR001"], ["collect", "--script"], ["schema"]):
        succeed(python, "-I", "-S", one_file, *command, env=bare_environment(tmp_path))


def test_is_executable(one_file: Path) -> None:
    """The first line names the interpreter."""
    assert succeed(one_file, "--version") == f"ext4audit {__version__}\n"


def test_old_interpreter_is_a_clear_error(one_file: Path) -> None:
    """The error is a message, not a traceback about syntax."""
    old = next(iter(Path.home().glob(".pyenv/versions/3.[6789].*/bin/python")), None)
    if old is None:
        pytest.skip("needs Python 3.6 to 3.9")
    done = run(old, one_file, "--version")
    assert done.returncode == 1
    assert done.stderr.startswith("ext4audit needs Python 3.10 or newer, and this is 3.")


def test_several_interpreters_are_installed() -> None:
    """CI machines must have at least one."""
    assert interpreters() or not REQUIRED


def test_first_and_second_start(one_file: Path, tmp_path: Path) -> None:
    """Both cost the same: nothing is unpacked, and nothing is cached."""
    copy = tmp_path / "ext4audit.pyz"
    shutil.copy(one_file, copy)
    arguments = ["scan", "--from", str(SNAPSHOT), "-f", "json"]
    packed = [sys.executable, "-I", "-S", str(copy)]
    commands = (
        [sys.executable, "-I", "-S", "-c", "pass"],
        [*packed, "--version"],
        [*packed, *arguments],
        [str(Path(sys.executable).with_name("ext4audit")), *arguments],
    )
    environment = bare_environment(tmp_path)
    first = command_seconds(commands[2], environment)
    rounds = [[command_seconds(each, environment) for each in commands] for _ in range(ROUNDS)]
    nothing, least, later, installed = (min(column) for column in zip(*rounds, strict=True))
    print(
        f"\none file, {copy.stat().st_size / 1e6:.1f} MB, processor time in multiples of an empty "
        f"interpreter ({nothing * 1000:.0f} ms): --version {least / nothing:.1f}, scan of a "
        f"snapshot {first / nothing:.1f} at first, {later / nothing:.1f} later, "
        f"installed {installed / nothing:.1f}"
    )
    assert later / nothing < MOST_INTERPRETER_STARTS
    assert [path.name for path in tmp_path.iterdir()] == [copy.name]
