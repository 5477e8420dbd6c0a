"""One filesystem in the guest, scanned live and captured by each collector at the same moment."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from ext4audit.cli import run_program
from support.shells.collector import collect

CAPTURES = Path("/lab-results/captures")
NOT_ROOT = "not-root-"
"""Prefix of the name of a capture by nobody; the rest is the name of the stack's fixture."""
NOBODY = 65534
SCAN = ("scan", "-q", "-f", "json")
LIVE = "live.json"
COLLECTED = "collect.tar.gz"
SENT = "shell.gz"
DIRTY_BYTES = 64 << 20


def capture(name: str) -> None:
    """Scan live, and capture with `collect` and its shell script, as root, into files of `name`.

    Everything is as a user runs it, except starting the interpreter, which is slow emulated.
    """
    target = CAPTURES / name
    target.mkdir(parents=True)
    with _fixed_dirty_limit():
        _program(target)
        (target / SENT).write_bytes(collect("dash").stdout)


def capture_as_nobody(name: str) -> None:
    """Scan live, and capture with `collect`, as a user who may read neither devices nor dm tables.

    Run `capture` first: it loads all modules, which nobody may not read.
    """
    target = CAPTURES / name
    target.mkdir(parents=True)
    with _fixed_dirty_limit(), tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.chown(directory, NOBODY, NOBODY)
        _as_nobody(Path(directory))
        for file in Path(directory).iterdir():
            shutil.copy(file, target)


def _program(target: Path) -> None:
    """Run both commands; store the scan's exit code beside its output."""
    code = run_program([*SCAN, "-o", str(target / LIVE)])
    (target / "exit-code").write_text(f"{code}\n")
    assert run_program(["collect", "-o", str(target / COLLECTED)]) == 0


def _as_nobody(target: Path) -> None:
    """Run it in a child that drops its privileges: another user could not load the interpreter."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            _program(target)
            code = 0
        except BaseException:  # noqa: BLE001 - a child must not go on as the scenario
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the child's traceback is on the console"


@contextlib.contextmanager
def _fixed_dirty_limit() -> Iterator[None]:
    """Limit dirty memory in bytes: a ratio of the available memory gives a new limit each time.

    Writing the ratio removes the limit in bytes (mm/page-writeback.c): the kernel refuses 0 bytes.
    """
    names = ("dirty_background_bytes", "dirty_bytes")
    ratios = {name: name.replace("bytes", "ratio") for name in names}
    former = {ratio: _setting(ratio).read_text() for ratio in ratios.values()}
    for name, size in zip(names, (DIRTY_BYTES // 4, DIRTY_BYTES), strict=True):
        _setting(name).write_text(str(size))
    try:
        yield
    finally:
        for ratio, value in former.items():
            _setting(ratio).write_text(value)


def _setting(name: str) -> Path:
    return Path("/proc/sys/vm", name)
