"""Ansible's action `snapshot`: the collector runs on a host, by the host's shell alone.

The script goes to a shell through its standard input, as Ansible's pipelining does: one round
trip, no file on the host, and no script in the logs of sudo. Where a connection or a way to become
root has no standard input, or sudo demands a terminal, the shell gets it on its command line.

Ansible loads this file; it needs nothing of ext4audit. The module of the collection has the same
text and is documented there.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shlex
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

BEGIN = "-----BEGIN EXT4AUDIT SNAPSHOT-----"
SHELL = "/bin/sh -s -- --text"
LARGEST = 64 << 20
"""Characters of a snapshot that are taken from a host; one of a large host has 200,000."""
SHOWN = 300
SEVERITIES = ("critical", "high", "medium", "low", "info")
ARGUMENTS = frozenset({"audit", "dest", "inventory_dest", "options", "program", "script"})
READ = (0, 1, 3)
"""Exit codes of `ext4audit scan` with a report."""


class ActionModule(ActionBase):
    """Collects the evidence of a host, and audits it on the controller."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: object = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task: never changed, and in check mode the same."""
        result = super().run(tmp, task_vars)
        words = self._task.args
        unknown = sorted(set(words) - ARGUMENTS)
        if unknown:
            raise AnsibleActionFail("unknown option: " + ", ".join(unknown))
        if words.get("inventory_dest"):
            _write_once(words["inventory_dest"], _members(task_vars or {}))
        program = words.get("program") or "ext4audit"
        text = self._snapshot(_script(words.get("script"), program))
        result.update(changed=False)
        if words.get("dest"):
            _write(words["dest"], text)
            result["dest"] = words["dest"]
        if _is_true(words.get("audit", True)):
            name = (task_vars or {}).get("inventory_hostname", "host")
            result.update(_audited(program, words.get("options") or [], name, text))
        return result

    def _snapshot(self, script: str) -> str:
        """Return what the collector printed on the host; raises AnsibleActionFail."""
        done = self._run(script, piped=self._has_standard_input())
        if BEGIN not in done["stdout"] and "tty" in done["stderr"]:
            done = self._run(script, piped=False)  # requiretty of sudoers(5)
        if len(done["stdout"]) > LARGEST:
            raise AnsibleActionFail(f"the host sent more than {LARGEST >> 20} MiB")
        if BEGIN not in done["stdout"]:
            said = (done["stderr"].strip() or done["stdout"].strip())[-SHOWN:]
            raise AnsibleActionFail(f"no snapshot: status {done['rc']}: {said or 'no output'}")
        return done["stdout"]

    def _has_standard_input(self) -> bool:
        become = self._connection.become
        if not getattr(self._connection, "has_pipelining", False):
            return False
        # su asks on the terminal; before ansible-core 2.18 no plugin said so.
        return become is None or getattr(become, "pipelining", become.name != "su")

    def _run(self, script: str, *, piped: bool) -> dict[str, Any]:
        """Run the script on the host; whatever ends this, ends what it started, too."""
        text = script.encode()
        packed = base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")
        command = SHELL if piped else f"printf %s {packed} | base64 -d | gzip -d | {SHELL}"
        try:
            return self._low_level_execute_command(command, in_data=text if piped else None)
        except BaseException:  # also of the task's timeout, which is no Exception
            _end_children()
            raise


def _script(path: str | None, program: str) -> str:
    """Return the collector: a file's text, or what the program prints."""
    if path:
        return Path(path).read_text(encoding="utf-8")
    return _output([program, "collect", "--script"], (0,))


def _members(task_vars: dict[str, Any]) -> dict[str, list[str]]:
    """Return the groups of each host of the play."""
    hosts: dict[str, list[str]] = {name: [] for name in task_vars.get("ansible_play_hosts_all", [])}
    for group, names in sorted(task_vars.get("groups", {}).items()):
        for name in names if group not in ("all", "ungrouped") else ():
            if name in hosts:
                hosts[name].append(group)
    return hosts


def _audited(program: str, options: list[str], name: str, text: str) -> dict[str, Any]:
    """Return the facts of the audit; raises AnsibleActionFail without a report."""
    handle, path = tempfile.mkstemp(prefix="ext4audit-", suffix=".txt")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        command = [program, "scan", "-f", "json", "--from", path, *map(str, options)]
        report = json.loads(_output(command, READ))
    finally:
        Path(path).unlink()
    return {"ansible_facts": {"ext4audit": _facts(report, name)}}


def _facts(report: dict[str, Any], name: str) -> dict[str, Any]:
    found = [
        {
            "rule": verdict["rule"],
            "name": verdict["name"],
            "filesystem": verdict["filesystem"],
            "severity": finding["severity"],
            "message": finding["message"],
        }
        for verdict in report["verdicts"]
        if not verdict["suppression"]
        for finding in verdict["findings"]
    ]
    counts = {each: sum(f["severity"] == each for f in found) for each in SEVERITIES}
    return {"host": name, "complete": report["complete"], "counts": counts, "findings": found}


def _output(command: list[str], codes: tuple[int, ...]) -> str:
    """Return what a program of the controller prints; raises AnsibleActionFail."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise AnsibleActionFail(f"{shlex.join(command[:1])}: {error.strerror}") from None
    if done.returncode not in codes:
        said = done.stderr.decode("utf-8", "replace").strip()[-SHOWN:]
        raise AnsibleActionFail(f"{shlex.join(command[:3])}: {said}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _is_true(value: Any) -> bool:  # noqa: ANN401 - what YAML and Jinja make
    return str(value).lower() in ("1", "on", "true", "y", "yes")


def _write(path: str, text: str) -> None:
    """Write a file that only the user can read, whole or not at all."""
    temporary = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    Path(temporary).replace(path)


def _write_once(path: str, members: dict[str, list[str]]) -> None:
    if not Path(path).exists():
        _write(path, json.dumps(members))


def _end_children() -> None:
    """End the clients that this process started, such as ssh: they would wait for ever."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()
    except OSError:
        return
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGTERM)
