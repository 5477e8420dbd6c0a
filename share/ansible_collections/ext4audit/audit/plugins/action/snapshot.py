"""The Ansible action plugin `snapshot`, which runs the collector on a host with only a shell.

The script is piped to the standard input of a shell, as in Ansible's pipelining: one round trip,
no file on the host, and no script in the sudo logs. If the connection or become plugin does not
provide standard input, or sudo requires a terminal, the script is passed on the command line.

Ansible loads this file, so it imports nothing from ext4audit. The collection ships a copy of it,
and documents it in its module `snapshot`.
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
"""The most characters accepted from a host; the snapshot of a large host has 200,000."""
SHOWN = 300
SEVERITIES = ("critical", "high", "medium", "low", "info")
ARGUMENTS = frozenset({"audit", "dest", "inventory_dest", "options", "program", "script"})
READ = (0, 1, 3)
"""Exit codes with which `ext4audit scan` has printed a report."""


class ActionModule(ActionBase):
    """Collects the evidence of a host and audits it on the controller."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: object = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task, which is never "changed" and is the same in check mode."""
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        unknown = sorted(set(arguments) - ARGUMENTS)
        if unknown:
            raise AnsibleActionFail("unknown option: " + ", ".join(unknown))
        if arguments.get("inventory_dest"):
            _write_once(arguments["inventory_dest"], _members(task_vars or {}))
        program = arguments.get("program") or "ext4audit"
        text = self._snapshot(_script(arguments.get("script"), program))
        result.update(changed=False)
        if arguments.get("dest"):
            _write(arguments["dest"], text)
            result["dest"] = arguments["dest"]
        if _is_true(arguments.get("audit", True)):
            name = (task_vars or {}).get("inventory_hostname", "host")
            result.update(_audited(program, arguments.get("options") or [], name, text))
        return result

    def _snapshot(self, script: str) -> str:
        """Return what the collector printed on the host; raises AnsibleActionFail."""
        done = self._run(script, piped=self._has_standard_input())
        if BEGIN not in done["stdout"] and "tty" in done["stderr"]:
            done = self._run(script, piped=False)  # requiretty in sudoers(5)
        if len(done["stdout"]) > LARGEST:
            raise AnsibleActionFail(f"the host sent more than {LARGEST >> 20} MiB")
        if BEGIN not in done["stdout"]:
            message = (done["stderr"].strip() or done["stdout"].strip())[-SHOWN:]
            raise AnsibleActionFail(f"no snapshot: status {done['rc']}: {message or 'no output'}")
        return done["stdout"]

    def _has_standard_input(self) -> bool:
        become = self._connection.become
        if not getattr(self._connection, "has_pipelining", False):
            return False
        # su prompts on the terminal; before ansible-core 2.18, plugins had no such attribute.
        return become is None or getattr(become, "pipelining", become.name != "su")

    def _run(self, script: str, *, piped: bool) -> dict[str, Any]:
        """Run the script on the host; if interrupted, also end the processes it started."""
        text = script.encode()
        packed = base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")
        command = SHELL if piped else f"printf %s {packed} | base64 -d | gzip -d | {SHELL}"
        try:
            return self._low_level_execute_command(command, in_data=text if piped else None)
        except BaseException:  # including the task's timeout, which is not an Exception
            _end_children()
            raise


def _script(path: str | None, program: str) -> str:
    """Return the collector script from a file, or else from `program`."""
    if path:
        return Path(path).read_text(encoding="utf-8")
    return _output([program, "collect", "--script"], (0,))


def _members(task_vars: dict[str, Any]) -> dict[str, list[str]]:
    """Return the groups of each host in the play, except "all" and "ungrouped"."""
    hosts: dict[str, list[str]] = {name: [] for name in task_vars.get("ansible_play_hosts_all", [])}
    for group, names in sorted(task_vars.get("groups", {}).items()):
        for name in names if group not in ("all", "ungrouped") else ():
            if name in hosts:
                hosts[name].append(group)
    return hosts


def _audited(program: str, options: list[str], name: str, text: str) -> dict[str, Any]:
    """Audit a snapshot and return the facts; raises AnsibleActionFail if there is no report."""
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
    """Return the output of a program on the controller; raises AnsibleActionFail."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise AnsibleActionFail(f"{shlex.join(command[:1])}: {error.strerror}") from None
    if done.returncode not in codes:
        message = done.stderr.decode("utf-8", "replace").strip()[-SHOWN:]
        raise AnsibleActionFail(f"{shlex.join(command[:3])}: {message}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _is_true(value: Any) -> bool:  # noqa: ANN401 - any value from YAML or Jinja
    return str(value).lower() in ("1", "on", "true", "y", "yes")


def _write(path: str, text: str) -> None:
    """Atomically write a file that only the user can read."""
    temporary = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    Path(temporary).replace(path)


def _write_once(path: str, members: dict[str, list[str]]) -> None:
    if not Path(path).exists():
        _write(path, json.dumps(members))


def _end_children() -> None:
    """Terminate the child processes of this process, such as ssh, which would wait forever."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()
    except OSError:
        return
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGTERM)
