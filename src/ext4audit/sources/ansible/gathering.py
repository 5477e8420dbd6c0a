"""Run the play on all hosts of an inventory through ansible-runner, and yield their snapshots.

ansible-runner runs in a separate process, which reports the result of each host. That process is
forked before any thread starts, and ends with its parent. Settings of the site that ansible-runner
would override are restored, above all the checking of host keys.

A private folder holds the snapshots until they are audited. Their file names are hashes, because
host names can contain any character.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ext4audit.sources.ansible import PROMPTS, AnsibleError, Answer, Play, playbook_program
from ext4audit.sources.snapshot.collector import collect_script

POLL_SECONDS = 0.1
GRACE_SECONDS = 0.3
LONGEST_NOTE = 2000
PRESET = {
    "ANSIBLE_HOST_KEY_CHECKING",
    "ANSIBLE_RETRY_FILES_ENABLED",
    "ANSIBLE_CACHE_PLUGIN",
    "ANSIBLE_CACHE_PLUGIN_CONNECTION",
}
"""Settings with which ansible-runner would override the site's ansible.cfg."""
LOCAL_TEMP = "ANSIBLE_LOCAL_TEMP"
"""The setting for Ansible's temporary files, which it leaves behind if a signal ends it."""
REFUSED = {
    r"continue connecting \(yes/no(?:/\[fingerprint\])?\)\? ?$": "no",
    r"Enter passphrase for [^\n]*: ?$": "",
    r"[^\n]*'s password: ?$": "",
    PROMPTS["ask_pass"]: "",
    PROMPTS["ask_become_pass"]: "",
    PROMPTS["ask_vault_pass"]: "",
}
"""Answers to prompts that no user can see; the failure then names what was missing."""
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
TASK_FAILED = "Task failed: "
"""The prefix that ansible-core 2.19 adds to every reason."""
OUTCOMES = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}


class Event(NamedTuple):
    """An event from Ansible: `kind` is "ok", "failed", "unreachable", "note" or "end".

    `text` is the reason, the text of a note, or the exit code. `output` is the end of the stdout.
    """

    kind: str
    host: str = ""
    text: str = ""
    output: str = ""


STOPPED = 255
"""The exit status if a signal arrives before Ansible has one."""


class Run:
    """A run of ansible-playbook in a child process."""

    def __init__(self, play: Play) -> None:
        """Start the run; raises AnsibleError."""
        program = playbook_program()
        context = multiprocessing.get_context("fork")
        self._events, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(play, program, sender))
        self._process.start()
        sender.close()

    def events(self) -> Iterator[Event | None]:
        """Yield events, and None after each POLL_SECONDS without; a crashed run has no "end"."""
        with suppress(EOFError):
            while True:
                yield self._events.recv() if self._events.poll(POLL_SECONDS) else None

    def stop(self) -> None:
        """End Ansible, if it still runs, and all processes that it started."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGTERM)
        self._events.close()
        self._process.join()
        self._process.close()


def _run(play: Play, program: str, sender: Connection) -> None:
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
        code = _play(play, program, sender, is_over)
        sender.send(Event("end", text=str(code)))


def _play(play: Play, program: str, sender: Connection, is_over: Callable[[], bool]) -> int:
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
    own = {LOCAL_TEMP: os.environ.get(LOCAL_TEMP, f"{play.folder}/local")}
    config.env = {k: v for k, v in config.env.items() if k not in PRESET} | before | own
    config.cwd = os.getcwd()  # noqa: PTH109 - where Ansible looks for ansible.cfg
    config.suppress_output_file = True
    config.command[config.command.index("ansible-playbook")] = program
    config.pexpect_timeout = POLL_SECONDS
    runner = Runner(
        config, event_handler=lambda event: _forward(event, sender), cancel_callback=is_over
    )
    runner.run()
    return STOPPED if runner.rc is None else int(runner.rc)


def _forward(event: dict[str, Any], sender: Connection) -> bool:
    """Send an event to the parent; return False, so that ansible-runner writes no file for it."""
    kind, data = event.get("event", ""), event.get("event_data", {})
    if kind in OUTCOMES and not data.get("ignore_errors"):
        result = data.get("res") or {}
        output = str(result.get("stdout", ""))[-LONGEST_NOTE:]
        sender.send(Event(OUTCOMES[kind], str(data.get("host")), _reason(result), output))
    elif kind in {"verbose", "error", "warning", "deprecated"}:
        text = ESCAPES.sub("", event.get("stdout", "")).strip()
        if text and not any(re.search(prompt, text) for prompt in PROMPTS.values()):
            sender.send(Event("note", text=text[:LONGEST_NOTE]))
    return False


def _reason(result: dict[str, Any]) -> str:
    message = " ".join(str(result.get("msg", "")).split()).removeprefix(TASK_FAILED)
    lines = str(result.get("stderr", "")).strip().splitlines()
    return f"{message}: {lines[-1]}" if lines else message


def end_descendants() -> None:
    """End all descendants of this process, including those in other sessions."""
    import psutil  # noqa: PLC0415 - an extra

    def is_running(process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    found = psutil.Process().children(recursive=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in found:
            with suppress(psutil.Error):
                each.send_signal(number)
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and any(map(is_running, found)):
            time.sleep(0.02)


ACTION = "ext4audit_snapshot"
MEMBERS, SCRIPT, PLAYBOOK = "members.json", "collect.sh", "gather.yml"
SNAPSHOTS = "snapshots"
TASK_TIMED_OUT = ("Timed out after", "failed to execute in the expected time frame")
"""The messages of ansible-core for a task that timed out: since 2.19, and before."""
SHOWN = 300
SUCCESS = "0"
MOST_NOTES = 400
"""The notes kept: more than the usage, error and help of ansible-playbook together."""


class Gathering:
    """One run over an inventory; `close` removes its files.

    `members` maps hosts to their groups; it is filled when Ansible contacts the first host.
    """

    def __init__(self, version: str, host_seconds: int) -> None:
        """Create the private folder with the playbook, the plugin and the collector."""
        self.members: dict[str, tuple[str, ...]] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="ext4audit-fleet-"))
        self._seconds = host_seconds
        self._write(version)
        self._run: Run | None = None

    def _write(self, version: str) -> None:
        (self._folder / "action_plugins").mkdir()
        (self._folder / SNAPSHOTS).mkdir()
        plugin = Path(__file__).with_name("snapshot_action.py").read_text()
        (self._folder / "action_plugins" / f"{ACTION}.py").write_text(plugin)
        (self._folder / SCRIPT).write_text(collect_script(version))
        (self._folder / PLAYBOOK).write_text(json.dumps([self._play()]))

    def _play(self) -> dict[str, object]:
        hashed = "{{ inventory_hostname | hash('sha256') }}"
        task = {
            "name": "snapshot",
            ACTION: {
                "script": str(self._folder / SCRIPT),
                "dest": f"{self._folder / SNAPSHOTS}/{hashed}",
                "inventory_dest": str(self._folder / MEMBERS),
                "audit": False,
            },
            "timeout": self._seconds,
            "no_log": False,
        }
        return {
            "name": "ext4audit",
            "hosts": "all",
            "gather_facts": False,
            "any_errors_fatal": False,
            "tasks": [task],
        }

    def answers(
        self,
        options: tuple[str, ...],
        passwords: dict[str, str],
        is_stopped: Callable[[], bool],
        note: Callable[[str], None],
    ) -> Iterator[Answer | None]:
        """Yield the answer of each host, and None whenever there was no event for a while.

        Every host of the play gets one answer, even if `is_stopped` ends the run. Raises
        AnsibleError if Ansible cannot be run or no host matches.
        """
        playbook = str(self._folder / PLAYBOOK)
        self._run = Run(Play(str(self._folder), playbook, options, passwords))
        answered: set[str] = set()
        notes: deque[str] = deque(maxlen=MOST_NOTES)
        code = ""
        for event in self._run.events():
            if is_stopped():
                break
            if event is None:
                yield None
            elif event.kind == "note":
                notes.append(event.text)
                note(event.text)
            elif event.kind == "end":
                code = event.text
            else:
                yield self._answer(event)
                answered.add(event.host)
        self._read_members()
        if not self.members and not is_stopped():
            raise AnsibleError(f"no host was asked: {why_no_host(code, notes)}")
        why = "interrupted" if is_stopped() else f"Ansible ended (status {code or 'unknown'})"
        for name in (each for each in self.members if each not in answered):
            yield Answer(name, self.members[name], reason=f"no answer: {why}")

    def _answer(self, event: Event) -> Answer:
        self._read_members()
        groups = self.members.get(event.host, ())
        if event.kind == "ok":
            return Answer(event.host, groups, path=str(self._path(event.host)))
        return Answer(event.host, groups, reason=reason_of(event))

    def _path(self, name: str) -> Path:
        hashed = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        return self._folder / SNAPSHOTS / hashed

    def _read_members(self) -> None:
        path = self._folder / MEMBERS
        if not self.members and path.exists():
            read = json.loads(path.read_text())
            self.members = {name: tuple(groups) for name, groups in read.items()}

    @property
    def folder(self) -> str:
        """The private folder of the run."""
        return str(self._folder)

    def forget(self, name: str) -> None:
        """Remove the snapshot of a host that has been audited."""
        self._path(name).unlink(missing_ok=True)

    def close(self) -> None:
        """End Ansible if it still runs, and remove the folder."""
        if self._run is not None:
            self._run.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def why_no_host(code: str, notes: Iterable[str]) -> str:
    """Return why a run contacted no host, given the exit status and the messages of Ansible.

    Status 0 means that no host matched. Otherwise the last error is the reason: for an unknown
    option, Ansible prints the error between its usage and its full help.
    """
    if code == SUCCESS:
        return "--inventory names no host, or --limit matches none of its hosts"
    errors = [note for note in notes if "error" in note.lower()]
    last = (errors or list(notes))[-1:]
    return last[0] if last else f"ansible-playbook ended with status {code or 'unknown'}"


def reason_of(event: Event) -> str:
    """Return a message about why a host provided no snapshot."""
    message = event.text[:SHOWN] or "no reason given"
    kind = "timed out" if any(each in message for each in TASK_TIMED_OUT) else event.kind
    return f"{kind}: {message}"
