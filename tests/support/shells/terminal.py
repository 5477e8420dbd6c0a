"""A real interactive shell on a separate terminal: type, press Tab, and read the line."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ext4audit.cli.completion import script
from support import launcher
from support.program import environment
from support.timing import PATIENCE_SECONDS, wait_until

TAB = b"\t"
ERASE = b"\x15"
REPORT = b"\x14"
"""Ctrl-T, which each shell is configured to answer with its current line.

No key sequence of a shell starts with it: after Ctrl-X, bash waits half a second for another key.
"""
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
SETUP = {
    "bash": """
bind 'set bell-style none'; bind 'set completion-query-items 0'; bind 'set page-completions off'
report() {{ printf '%s' "$READLINE_LINE" > {line}.new; mv {line}.new {line}; }}
bind -x '"\\C-t": report'
. {script}
: > {ready}
""",
    "zsh": """
fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u; unsetopt beep; LISTMAX=1000
report() {{ print -rn -- "$BUFFER" > {line}.new; mv {line}.new {line}; }}
zle -N report; bindkey '^T' report
: > {ready}
""",
    "fish": """
function report; printf '%s' (commandline | string collect) > {line}.new; mv {line}.new {line}; end
bind \\ct report
source {script}
: > {ready}
""",
}


COMMAND = f"{sys.executable} -m ext4audit"
CLIENT = f"""#!/bin/sh
[ $# = 0 ] && [ ! -e {{new}} ] || exec {COMMAND} "$@"
env -0 >{{questions}} && exec cat {{answers}}
"""
"""Sends its environment, which contains a shell's completion request, and prints the answer."""


class Shell:
    """An interactive shell in `folder`, in which `ext4audit` runs with this interpreter.

    A fork of a process that has loaded the program answers, unless a new interpreter is requested.
    """

    def __init__(self, name: str, folder: Path) -> None:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        self._line, self._ready = folder / ".line", folder / ".ready"
        self._questions, self._answers = folder / ".questions", folder / ".answers"
        self._new = folder / ".new"
        self._asked, self._folder = b"", folder
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
        program.write_text(
            CLIENT.format(questions=self._questions, answers=self._answers, new=self._new)
        )
        program.chmod(0o755)
        os.mkfifo(self._questions)
        os.mkfifo(self._answers)
        self._question = os.open(self._questions, os.O_RDONLY | os.O_NONBLOCK)

    @staticmethod
    def _environment(folder: Path) -> dict[str, str]:
        path = f"{folder}/.bin:{os.environ['PATH']}"
        return environment(PATH=path, HOME=str(folder), TERM="xterm", PS1="$ ", HISTFILE="")

    def _drain(self) -> None:
        """Read the output of the shell, which blocks if the terminal's buffer is full."""
        with suppress(OSError):
            while shown := os.read(self._terminal, 65536):
                self.shown += shown

    def _wait(self, is_done: Callable[[], bool]) -> None:
        def is_done_now() -> bool:
            if not is_done():
                self._answer()
            return is_done()

        assert wait_until(is_done_now, 0.003), self.shown.decode(errors="replace")

    def _answer(self) -> None:
        """Read and answer the pending completion request of the shell, once it is complete."""
        with suppress(BlockingIOError):
            while part := os.read(self._question, 65536):
                self._asked += part
            if self._asked:
                pairs = self._asked.decode().removesuffix("\0").split("\0")
                self._asked = b""
                self._run(dict(pair.split("=", 1) for pair in pairs))

    def _run(self, variables: dict[str, str]) -> None:
        null_path = Path(os.devnull)
        with self._answers.open("wb", buffering=0) as answer, null_path.open("r+b") as null:
            code = launcher.run_copy(
                [],
                variables,
                str(self._folder),
                streams=(null.fileno(), answer.fileno(), null.fileno()),
                as_nobody=False,
                seconds=PATIENCE_SECONDS,
            )
        assert code == 0, variables

    def completed(self, typed: str, *, new: bool = False) -> str:
        """Type on an empty line, press Tab, and return the line.

        With `new`, a new interpreter answers the shell.
        """
        self._new.unlink(missing_ok=True)
        if new:
            self._new.touch()
        self._line.unlink(missing_ok=True)
        os.write(self._terminal, ERASE + typed.encode() + TAB + REPORT)
        self._wait(self._line.exists)
        return self._line.read_text(encoding="utf-8")

    def close(self) -> None:
        """Kill the shell and close its terminal."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
        os.close(self._question)
