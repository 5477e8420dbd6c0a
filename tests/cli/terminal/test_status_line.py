"""The status line: on a terminal only, and safe for any device name."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TextIO

import pytest

from ext4audit.cli.output import is_ascii_only, wants_color, width
from support.program import environment, run_python
from support.terminals import Terminal
from support.timing import PATIENCE_SECONDS

VARIABLES = ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS"]


@contextmanager
def terminal(columns: int = 80) -> Iterator[tuple[int, TextIO]]:
    """Open a terminal; yield its other end and the stream to which a program writes."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        yield master, stream
    os.close(master)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables of the terminal that runs the tests."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("choice", "variables", "on_terminal", "in_pipe"),
    [
        ("auto", {"TERM": "xterm"}, True, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {}, False, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, True, True),
        ("auto", {"FORCE_COLOR": "3"}, True, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"FORCE_COLOR": ""}, False, False),
        ("auto", {"CLICOLOR_FORCE": "1", "TERM": "dumb"}, True, True),
        ("auto", {"CLICOLOR_FORCE": "0", "TERM": "xterm"}, True, False),
        ("auto", {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True, True),
        ("never", {"FORCE_COLOR": "1", "TERM": "xterm"}, False, False),
    ],
    ids=str,
)
def test_precedence_of_colour_settings(
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    variables: dict[str, str],
    on_terminal: bool,
    in_pipe: bool,
) -> None:
    """The order is: option, NO_COLOR, forcing variables, then the terminal's capability."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with terminal() as (_, stream):
        assert wants_color(choice, stream) is on_terminal
    assert wants_color(choice, io.StringIO()) is in_pipe


@pytest.mark.parametrize(
    ("encoding", "ascii_only"),
    [
        ("utf-8", False),
        ("utf-16", False),
        ("ascii", True),
        ("latin-1", True),
        ("cp437", True),
        ("koi8-r", True),
    ],
)
def test_glyphs_by_encoding(encoding: str, ascii_only: bool) -> None:
    """If one glyph cannot be encoded, none is used."""
    assert is_ascii_only(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is ascii_only


def test_stream_without_an_encoding_is_ascii() -> None:
    """If the encoding is not known, the simplest output is chosen."""
    assert io.StringIO().encoding is None
    assert is_ascii_only(io.StringIO()) is True


def test_pipe_is_not_wrapped() -> None:
    """Lines in a pipe have no limit."""
    assert width(io.StringIO()) is None


PRINT_WIDTH = """
import sys
from ext4audit.cli.output import width
sys.stderr.write(str(width(sys.stdout)))
"""


@pytest.mark.parametrize(("columns", "variable", "expected"), [(57, "", "57"), (57, "91", "91")])
def test_width_of_a_terminal(columns: int, variable: str, expected: str) -> None:
    """The window's columns count, unless COLUMNS is set."""
    with terminal(columns) as (_, stream):
        done = subprocess.run(
            [sys.executable, "-c", PRINT_WIDTH],
            env=environment(COLUMNS=variable),
            stdout=stream,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    assert done.stderr == expected


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)],
    ids=str,
)
def test_scan_on_a_terminal_is_coloured(variables: dict[str, str], colored: bool) -> None:
    """The summary is coloured if the terminal has colours; the exit code is the same."""
    with closing(Terminal(24, 80)) as terminal:
        done = subprocess.run(
            [sys.executable, "-m", "ext4audit", "scan", "-q"],
            env=environment(**{"TERM": "xterm", **variables}),
            stdout=terminal.slave,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        shown = terminal.screen()
    assert done.returncode in {0, 1, 3}
    assert ("\x1b[" in shown) is colored
    assert " filesystem" in shown


SCRIPT = """
import sys
from ext4audit.cli.output import progress
with progress(quiet="quiet" in sys.argv) as show:
    show("vda\\x1b]0;evil\\x07[/red]\\n\\udcff")
"""


def on_terminal(*arguments: str, **variables: str) -> str:
    """Return what a terminal on standard error shows; standard output must be empty."""
    with closing(Terminal(24, 80)) as terminal:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *arguments],
            env=environment(**{"TERM": "xterm", **variables}),
            stdout=subprocess.PIPE,
            stderr=terminal.slave,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        assert done.stdout == b""
        return terminal.screen()


def test_status_line_shows_the_device() -> None:
    """The device name is shown with control characters escaped, not as markup."""
    shown = on_terminal()
    assert r"reading vda\x1b]0;evil\x07[/red]\x0a\xff" in shown
    assert "\x1b]0;" not in shown


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"TERM": "dumb"}], ids=str)
def test_simple_terminal_gets_ascii_spinner(variables: dict[str, str]) -> None:
    """The output has neither Braille nor its escape."""
    shown = on_terminal(**variables)
    assert shown.isascii()
    assert r"\u28" not in shown


def test_quiet_has_no_status_line() -> None:
    """With `-q` only the summary is printed."""
    assert on_terminal("quiet") == ""


def test_pipe_has_no_status_line() -> None:
    """A log of standard error has diagnostics only."""
    done = run_python("-c", SCRIPT)
    assert done.returncode == 0
    assert done.stdout == done.stderr == ""
