"""Snapshots of all hosts of an inventory: the play, its private folder, and the answers.

The folder holds the snapshots until they are audited. Their names are hashes, because the names
of hosts can be anything.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ext4audit.sources.ansible import AnsibleError, Answer, Play
from ext4audit.sources.ansible.running import Event, Run
from ext4audit.sources.snapshot.collector import collect_script

ACTION = "ext4audit_snapshot"
MEMBERS, SCRIPT, PLAYBOOK = "members.json", "collect.sh", "gather.yml"
SNAPSHOTS = "snapshots"
TASK_TIMED_OUT = ("Timed out after", "failed to execute in the expected time frame")
"""What ansible-core says of a task that took too long: since 2.19, and before."""
SHOWN = 300
SUCCESS = "0"
MOST_NOTES = 400
"""More than the usage, the error and the help of ansible-playbook."""


class Gathering:
    """One run over an inventory; `close` removes all that it made.

    `members` are the hosts with their groups, known as soon as the first host is asked.
    """

    def __init__(self, version: str, host_seconds: int) -> None:
        """Make the private folder."""
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
        """Yield what each host answers, None whenever there was nothing for a while.

        Every host of the play has one answer, also where `is_stopped` ends the run. Raises
        AnsibleError where Ansible does not run, or no host matches.
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
            raise AnsibleError(f"no host was asked: {nobody(code, notes)}")
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
        """End Ansible where it still runs, and remove the folder."""
        if self._run is not None:
            self._run.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def nobody(code: str, notes: Iterable[str]) -> str:
    """Return why a run ended without a host, of the status of Ansible and its messages.

    With status 0 the inventory is empty. Else it is the last error: for an option that it does
    not know, Ansible prints the error between its usage and its whole help.
    """
    if code == SUCCESS:
        return "--inventory names no host, or --limit matches none of its hosts"
    errors = [note for note in notes if "error" in note.lower()]
    last = (errors or list(notes))[-1:]
    return last[0] if last else f"ansible-playbook ended with status {code or 'unknown'}"


def reason_of(event: Event) -> str:
    """Return in words why a host gave no snapshot."""
    said = event.text[:SHOWN] or "no reason given"
    kind = "timed out" if any(each in said for each in TASK_TIMED_OUT) else event.kind
    return f"{kind}: {said}"
