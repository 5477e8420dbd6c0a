"""Run the program as a user runs it: a process of its own in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from support.mounts import mount_table

CLEARED = "NO_COLOR FORCE_COLOR CLICOLOR_FORCE TERM COLUMNS PYTHONIOENCODING LC_ALL".split()
SECONDS = 60
"""Far more than any command takes; a test that hangs must fail."""

AS_NOBODY = """
import difflib, importlib, os, pkgutil, sys
import ext4audit, psutil, pyudev, rich.cells, rich.console, rich.status
for module in pkgutil.walk_packages(ext4audit.__path__, "ext4audit."):
    if module.name != "ext4audit.__main__":
        importlib.import_module(module.name)
from ext4audit.cli.app import run_program
from ext4audit.facts import read_table
from ext4audit.rules import all_rules
for folder in ext4audit.facts.__path__:
    for name in os.listdir(folder):
        if name.endswith(".toml"):
            read_table(name)
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
    *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit ARGUMENTS` and return how it ended."""
    return run_python("-m", "ext4audit", *arguments, env=env, **options)


def run_python(
    *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter; both streams are captured unless told otherwise."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
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
