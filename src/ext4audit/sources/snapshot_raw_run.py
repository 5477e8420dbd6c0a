"""What a program said when the shell collector ran it, judged as the live source judges."""

from __future__ import annotations

from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import commands
from ext4audit.sources.ask import RunCommand, describe
from ext4audit.sources.snapshot_format import SnapshotError
from ext4audit.sources.snapshot_json import Object, string
from ext4audit.sources.unanswered import Unanswered, denied_hint

RAW_RUN = {"status", "timed_out", "stdout", "stderr"}
"""The keys of a raw run; `status` is null where the program was not waited for."""

_NOT_FOUND = 127
"""What a shell, env(1) and timeout(1) exit with for a program that is not there."""


def judged_run(ask: RunCommand, run: Object, *, is_root: bool) -> Evidence[str]:
    """Return the answer that a raw run gives; raises SnapshotError for a malformed one."""
    what, said = describe(ask), _said(run)
    try:
        return Known(_output(ask.argv[0], said, denied_hint(is_root=is_root)), what)
    except Unanswered as lack:
        return Unknown(what, lack.why, lack.detail, lack.hint)


class _Run(NamedTuple):
    status: int | None
    timed_out: bool
    stdout: str
    stderr: str


def _output(name: str, run: _Run, hint_when_denied: str) -> str:
    """Return the output of a program that did its work; raises Unanswered for another."""
    if run.timed_out:
        again = "capture again when the device or the tool answers"
        raise Unanswered(Why.TIMED_OUT, "no answer in time", again)
    if run.status is None:
        raise Unanswered(Why.FAILED, "its exit status was not recorded")
    if run.status == _NOT_FOUND:
        raise commands.absent(name)
    return commands.judge(name, run.status, run.stdout, run.stderr, hint_when_denied)


def _said(run: Object) -> _Run:
    """Check the types of a raw run."""
    status = run["status"]
    if status is not None and type(status) is not int:
        raise SnapshotError("status: neither a number nor null")
    if type(run["timed_out"]) is not bool:
        raise SnapshotError("timed_out: neither true nor false")
    return _Run(status, run["timed_out"], string(run, "stdout"), string(run, "stderr"))
