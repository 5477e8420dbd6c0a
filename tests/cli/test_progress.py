"""The status line: on a terminal only, and harmless whatever is read."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from program import SECONDS, environment, run_python

SCRIPT = """
import sys
from ext4audit.cli.progress import progress
with progress(quiet="quiet" in sys.argv) as show:
    show("vda\\x1b]0;evil\\x07[/red]\\n\\udcff")
"""


def on_terminal(*arguments: str, **variables: str) -> bytes:
    """Return what a terminal on standard error gets; standard output stays empty."""
    master, slave = os.openpty()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=environment(**{"TERM": "xterm", **variables}),
        stdout=subprocess.PIPE,
        stderr=slave,
        timeout=SECONDS,
        check=True,
    )
    os.write(slave, b".")  # a read of a silent terminal would wait for ever
    shown = os.read(master, 1 << 16)
    os.close(slave)
    os.close(master)
    assert done.stdout == b""
    return shown


def test_a_person_sees_what_is_read() -> None:
    """The name of the device is shown with its controls spelled out, and not as markup."""
    shown = on_terminal()
    assert rb"reading vda\x1b]0;evil\x07[/red]\x0a\xff" in shown
    assert b"\x1b]0;" not in shown


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"TERM": "dumb"}], ids=str)
def test_a_simple_terminal_gets_simple_characters(variables: dict[str, str]) -> None:
    """Neither Braille nor an escape that spells it."""
    shown = on_terminal(**variables)
    assert shown.isascii()
    assert rb"\u28" not in shown


def test_quiet_shows_nothing() -> None:
    """`-q` asks for the summary and nothing else."""
    assert on_terminal("quiet") == b"."


def test_a_pipe_gets_nothing() -> None:
    """A log of standard error holds diagnostics only."""
    done = run_python("-c", SCRIPT)
    assert done.returncode == 0
    assert done.stdout == done.stderr == ""
