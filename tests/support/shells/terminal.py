"""A real interactive shell on a terminal of its own: type, press tab, and read the line."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ext4audit.cli.completion import script
from support.program import environment

TAB = b"\t"
ERASE = b"\x15"
REPORT = b"\x18"
"""Ctrl-X, which each shell is told to answer with the line as it is now."""
SECONDS = 30.0
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
SETUP = {
    "bash": """
bind 'set bell-style none'; bind 'set completion-query-items 0'; bind 'set page-completions off'
report() {{ printf '%s' "$READLINE_LINE" > {line}.new; mv {line}.new {line}; }}
bind -x '"\\C-x": report'
. {script}
: > {ready}
""",
    "zsh": """
fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u; unsetopt beep; LISTMAX=1000
report() {{ print -rn -- "$BUFFER" > {line}.new; mv {line}.new {line}; }}
zle -N report; bindkey '^X' report
: > {ready}
""",
    "fish": """
function report; printf '%s' (commandline | string collect) > {line}.new; mv {line}.new {line}; end
bind \\cx report
source {script}
: > {ready}
""",
}


class Shell:
    """An interactive shell in `folder`, in which `ext4audit` is this interpreter's."""

    def __init__(self, name: str, folder: Path) -> None:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        self._line, self._ready = folder / ".line", folder / ".ready"
        self._prepare(name, folder)
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe(name, START[name], self._environment(folder))  # noqa: S606 - a real one
        self.shown = b""
        threading.Thread(target=self._drain, daemon=True).start()
        os.write(self._terminal, f". {folder}/.setup\r".encode())
        self._wait(self._ready.exists)

    def _prepare(self, name: str, folder: Path) -> None:
        scripts = folder / ".completion" / "_ext4audit"
        scripts.parent.mkdir()
        scripts.write_text(script(name), encoding="utf-8")
        setup = SETUP[name].format(
            line=self._line, ready=self._ready, script=scripts, folder=scripts.parent
        )
        (folder / ".setup").write_text(setup, encoding="utf-8")
        program = folder / ".bin" / "ext4audit"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ext4audit "$@"\n')
        program.chmod(0o755)

    @staticmethod
    def _environment(folder: Path) -> dict[str, str]:
        path = f"{folder}/.bin:{os.environ['PATH']}"
        return environment(PATH=path, HOME=str(folder), TERM="xterm", PS1="$ ", HISTFILE="")

    def _drain(self) -> None:
        """Read what is shown, or the shell waits for room to show more."""
        with suppress(OSError):
            while shown := os.read(self._terminal, 65536):
                self.shown += shown

    def _wait(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not is_done():
            assert time.monotonic() < end, self.shown.decode(errors="replace")
            time.sleep(0.02)

    def completed(self, typed: str) -> str:
        """Type on an empty line, press tab, and return the line."""
        self._line.unlink(missing_ok=True)
        os.write(self._terminal, ERASE + typed.encode() + TAB + REPORT)
        self._wait(self._line.exists)
        return self._line.read_text(encoding="utf-8")

    def close(self) -> None:
        """Hang up."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
