"""Run the program on a separate terminal, and read its screen."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from support import launcher
from support.program import environment
from support.timing import PATIENCE_SECONDS

CLEARED_VARIABLES = (
    "VTE_VERSION TERM_PROGRAM KONSOLE_VERSION DOMTERM WT_SESSION KITTY_WINDOW_ID "
    "ALACRITTY_WINDOW_ID FORCE_HYPERLINK PAGER LESS LINES"
).split()
"""Variables that the developer's own terminal and pager set."""


class TerminalOutput(NamedTuple):
    """The exit code and output of the program; `stderr` is empty if the screen includes it."""

    code: int
    screen: str
    stderr: str


def on_terminal(
    *arguments: str,
    rows: int = 24,
    columns: int = 80,
    with_stderr: bool = False,
    env: Mapping[str, str] | None = None,
) -> TerminalOutput:
    """Run `ext4audit ARGUMENTS` with a terminal as standard input and output.

    The process is a fork of one that has loaded the program, as in `support.program.run`.
    """
    kept = {name: value for name, value in environment().items() if name not in CLEARED_VARIABLES}
    words = {**kept, "TERM": "xterm", **(env or {})}
    with closing(Terminal(rows, columns)) as terminal, TemporaryFile() as stderr:
        slave = terminal.slave
        code = launcher.run_copy(
            arguments,
            words,
            str(Path.cwd()),
            streams=(slave, slave, slave if with_stderr else stderr.fileno()),
            as_nobody=False,
            seconds=PATIENCE_SECONDS,
        )
        screen = terminal.screen()
        stderr.seek(0)
        return TerminalOutput(code, screen, stderr.read().decode())


def on_terminal_new(*arguments: str) -> TerminalOutput:
    """Run `ext4audit ARGUMENTS` in a new interpreter on a terminal."""
    kept = {name: value for name, value in environment().items() if name not in CLEARED_VARIABLES}
    with closing(Terminal(24, 80)) as terminal:
        done = subprocess.run(
            [sys.executable, "-m", "ext4audit", *arguments],
            env={**kept, "TERM": "xterm"},
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=subprocess.PIPE,
            start_new_session=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return TerminalOutput(done.returncode, terminal.screen(), done.stderr.decode())


class Terminal:
    """A terminal whose screen is read while something writes to it."""

    def __init__(self, rows: int, columns: int) -> None:
        self._master, self.slave = os.openpty()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close both ends of the terminal."""
        self._end()
        os.close(self._master)

    def screen(self) -> str:
        """Return all output, once all processes have closed the terminal."""
        self._end()
        return self._shown.decode().replace("\r\n", "\n")

    def _end(self) -> None:
        if self.slave >= 0:
            os.close(self.slave)
            self.slave = -1
        self._reader.join(PATIENCE_SECONDS)

    def _read(self) -> None:
        with suppress(OSError):  # Linux reports EIO after the last writer has closed it
            while part := os.read(self._master, 1 << 16):
                self._shown += part
