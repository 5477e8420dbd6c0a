"""Run the program on a terminal of its own, and read what it shows."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from typing import NamedTuple

from support.program import SECONDS, environment

CLEARED = (
    "VTE_VERSION TERM_PROGRAM KONSOLE_VERSION DOMTERM WT_SESSION KITTY_WINDOW_ID "
    "ALACRITTY_WINDOW_ID FORCE_HYPERLINK PAGER LESS LINES"
).split()
"""What a developer's own terminal and pager say."""


class Shown(NamedTuple):
    """How the program ended; `stderr` is empty where the terminal shows it too."""

    code: int
    screen: str
    stderr: str


def on_terminal(
    *arguments: str,
    rows: int = 24,
    columns: int = 80,
    with_stderr: bool = False,
    env: Mapping[str, str] | None = None,
) -> Shown:
    """Run `ext4audit ARGUMENTS` with a terminal as standard input and output."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    kept = {name: value for name, value in environment().items() if name not in CLEARED}
    program = subprocess.Popen(
        [sys.executable, "-m", "ext4audit", *arguments],
        env={**kept, "TERM": "xterm", **(env or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave if with_stderr else subprocess.PIPE,
        start_new_session=True,
    )
    os.close(slave)
    screen = _read(master)
    stderr = program.communicate(timeout=SECONDS)[1] or b""
    os.close(master)
    return Shown(program.returncode, screen.replace("\r\n", "\n"), stderr.decode())


def _read(master: int) -> str:
    """Read until all processes have closed the terminal."""
    shown = b""
    try:
        while part := os.read(master, 1 << 16):
            shown += part
    except OSError:  # Linux reports EIO when the last writer has gone
        pass
    return shown.decode()
