"""ansible-runner in a process of its own, which passes on what becomes of each host.

The process is forked before there are threads, and ends with its parent. What ansible-runner
presets of a site's configuration is taken back: the check of host keys above all.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import psutil

from ext4audit.sources.ansible import PROMPTS, Play, playbook_program

POLL_SECONDS = 0.1
GRACE_SECONDS = 0.3
LONGEST_NOTE = 2000
PRESET = {
    "ANSIBLE_HOST_KEY_CHECKING",
    "ANSIBLE_RETRY_FILES_ENABLED",
    "ANSIBLE_CACHE_PLUGIN",
    "ANSIBLE_CACHE_PLUGIN_CONNECTION",
}
"""Settings that ansible-runner makes and a site's ansible.cfg would make otherwise."""
REFUSED = {
    r"continue connecting \(yes/no(?:/\[fingerprint\])?\)\? ?$": "no",
    r"Enter passphrase for [^\n]*: ?$": "",
    r"[^\n]*'s password: ?$": "",
    PROMPTS["ask_pass"]: "",
    PROMPTS["ask_become_pass"]: "",
    PROMPTS["ask_vault_pass"]: "",
}
"""Prompts that nobody can see: the host's reason says what was missing."""
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
TASK_FAILED = "Task failed: "
"""What ansible-core 2.19 puts before every reason."""
OUTCOMES = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}


class Event(NamedTuple):
    """What Ansible reports: `kind` is ok, failed or unreachable, "note" for a text, or "end".

    `text` is the reason, the text, or the exit code. `output` is the end of what the task printed.
    """

    kind: str
    host: str = ""
    text: str = ""
    output: str = ""


_OVER = Event("over")
STOPPED = 255
"""The status where a signal came before Ansible had one."""


class Run:
    """A run of ansible-playbook; `events` yields None whenever nothing has happened lately."""

    def __init__(self, play: Play) -> None:
        """Start it; raises AnsibleError."""
        program = playbook_program()
        context = multiprocessing.get_context("fork")
        self._events, there = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(play, program, there))
        self._process.start()
        there.close()

    def events(self) -> Iterator[Event | None]:
        """Yield what happens until the end; a run that crashes ends without "end"."""
        while True:
            event = self._next()
            if event is _OVER:
                return
            yield event

    def _next(self) -> Event | None:
        try:
            event: Event | None = self._events.recv() if self._events.poll(POLL_SECONDS) else None
        except EOFError:
            return _OVER
        return event

    def stop(self) -> None:
        """End Ansible and all that it started; does nothing where it has ended."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGTERM)
        self._events.close()
        self._process.join()
        self._process.close()


def _run(play: Play, program: str, there: Connection) -> None:
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    parent = os.getppid()

    def is_over() -> bool:
        if not stopped and os.getppid() == parent:
            return False
        end_descendants()
        return True

    with suppress(BrokenPipeError):
        code = _play(play, program, there, is_over)
        there.send(Event("end", text=str(code)))


def _play(play: Play, program: str, there: Connection, is_over: Any) -> int:  # noqa: ANN401
    from ansible_runner import Runner, RunnerConfig  # noqa: PLC0415 - an extra

    config = RunnerConfig(
        private_data_dir=play.folder,
        playbook=play.playbook,
        cmdline=shlex.join(play.options) or None,
        passwords={**REFUSED, **play.passwords},
        quiet=not play.shown,
        suppress_env_files=True,
    )
    before = {name: os.environ[name] for name in PRESET & os.environ.keys()}
    config.prepare()
    config.env = {k: v for k, v in config.env.items() if k not in PRESET} | before
    config.cwd = os.getcwd()  # noqa: PTH109 - where ansible.cfg is looked for
    config.suppress_output_file = True
    config.command[config.command.index("ansible-playbook")] = program
    config.pexpect_timeout = POLL_SECONDS
    runner = Runner(
        config,
        event_handler=lambda event: _pass_on(event, there),
        cancel_callback=is_over,
    )
    runner.run()
    return STOPPED if runner.rc is None else int(runner.rc)


def _pass_on(event: dict[str, Any], there: Connection) -> bool:
    """Send an event to the parent; False keeps ansible-runner from writing it to a file."""
    kind, data = event.get("event", ""), event.get("event_data", {})
    if kind in OUTCOMES and not data.get("ignore_errors"):
        result = data.get("res") or {}
        output = str(result.get("stdout", ""))[-LONGEST_NOTE:]
        there.send(Event(OUTCOMES[kind], str(data.get("host")), _reason(result), output))
    elif kind in {"verbose", "error", "warning", "deprecated"}:
        text = ESCAPES.sub("", event.get("stdout", "")).strip()
        if text and not any(re.search(prompt, text) for prompt in PROMPTS.values()):
            there.send(Event("note", text=text[:LONGEST_NOTE]))
    return False


def _reason(result: dict[str, Any]) -> str:
    said = " ".join(str(result.get("msg", "")).split()).removeprefix(TASK_FAILED)
    lines = str(result.get("stderr", "")).strip().splitlines()
    return f"{said}: {lines[-1]}" if lines else said


def end_descendants() -> None:
    """End all processes that this one started, also those with a session of their own."""
    found = psutil.Process().children(recursive=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in found:
            with suppress(psutil.Error):
                each.send_signal(number)
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and any(map(_lives, found)):
            time.sleep(0.02)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
