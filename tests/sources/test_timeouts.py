"""Calls in a helper process: what they return, and how a hanging one is abandoned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ext4audit.evidence import Why
from ext4audit.sources import ArchiveError, Unanswered, captured
from ext4audit.sources.timeouts import (
    BoundedCalls,
    WaitBudget,
    answered,
    answered_for,
    one_helper,
    undo,
)
from support.timing import HANG_SECONDS, PATIENCE_SECONDS, assert_no_waiting, wait_until

pytestmark = pytest.mark.usefixtures("monkeypatch")
"""Makes helpers forks of this process, as for users: see tests/conftest.py."""


def fail(error: Exception) -> None:
    """Raise the error, in the helper."""
    raise error


def descriptors() -> list[str]:
    """Return what the helper has open."""
    links = [*Path("/proc/self/fd").iterdir()]
    return sorted(str(each.readlink()) for each in links if each.is_symlink())


def is_there(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def ends(pid: int) -> bool:
    """Return whether a process ends soon."""
    return wait_until(lambda: not is_there(pid))


@pytest.mark.parametrize("value", [None, 1, "\udcff\n", b"\0\xff", [("a", 1)], "x" * 10_000_000])
def test_value_is_returned(value: object) -> None:
    """Any value is returned, including None and large ones."""
    assert answered(partial(next, iter([value]))) == value


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "gone"),
        OSError("gone: without a number"),
        Unanswered(Why.ABSENT, "gone", "a hint"),
        ArchiveError("gone"),
        MemoryError("gone"),
    ],
    ids=repr,
)
def test_error_is_raised(error: Exception) -> None:
    """The errno, the reason and the hint are kept."""
    with pytest.raises(type(error), match="gone") as raised:
        answered(partial(fail, error))
    assert raised.value.args == error.args
    assert vars(raised.value) == vars(error)


def test_a_call_that_hangs_is_left_behind() -> None:
    """After the timeout the caller continues; the next call has another helper."""
    bounded = BoundedCalls(PATIENCE_SECONDS)
    first = bounded(os.getpid)
    with assert_no_waiting(), pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        bounded(partial(time.sleep, HANG_SECONDS), 0.2)
    assert bounded(os.getpid) not in {first, os.getpid()}
    assert ends(first)


def test_calls_share_a_helper_that_ends_with_them() -> None:
    """A fork for each of the 40 calls of a scan would take as long as the scan."""
    with closing(BoundedCalls(PATIENCE_SECONDS)) as bounded:
        helper = bounded(os.getpid)
        assert bounded(os.getpid) == helper
    assert ends(helper)
    freed = BoundedCalls(PATIENCE_SECONDS)
    helper = freed(os.getpid)
    del freed
    assert ends(helper)


def test_a_helper_of_another_working_directory_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change takes effect between two archives; within one, the helper holds an open file."""
    with closing(BoundedCalls(PATIENCE_SECONDS)) as bounded:
        old = bounded(os.getpid)
        monkeypatch.chdir(tmp_path)
        assert bounded(os.getpid) == old
        bounded.follow()
        assert bounded(os.getcwd) == str(tmp_path)
        assert ends(old)
        bounded.follow()
        tmp_path.rmdir()
        bounded.follow()
        assert bounded(os.getpid) != old


def test_a_run_of_the_program_has_one_helper() -> None:
    """It serves policy, outputs and sources, and ends with the run."""
    with one_helper():
        helper = answered(os.getpid)
        assert answered(os.getpid) == answered_for("/srv", os.getpid) == helper
        with one_helper():
            assert answered(os.getpid) != helper
        assert answered(os.getpid) == helper
        assert is_there(helper)
    assert not is_there(helper)
    assert answered(os.getpid) != answered(os.getpid)


def test_captured_evidence_is_read_by_the_helper_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second helper, for whatever form of evidence, would take a tenth of a scan's time."""
    host = Path(__file__).parents[2] / "fixtures/hosts/healthy-debian-12/snapshot"
    text = tmp_path / "host.txt"
    text.write_text("no snapshot")
    with one_helper():
        answered(os.getpid)
        monkeypatch.setattr(os, "fork", partial(fail, AssertionError("a second helper")))
        assert captured.open_captured(str(host)).kind == "snapshot"
        with pytest.raises(ArchiveError, match=r"host\.txt: .*no snapshot"):
            captured.open_captured(str(text))


def test_helpers_are_closed_while_another_one_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage collection or another thread may reap it; no helper is waited for twice."""
    first, second = BoundedCalls(PATIENCE_SECONDS), BoundedCalls(PATIENCE_SECONDS)
    for helper in (first(os.getpid), second(os.getpid)):
        os.kill(helper, signal.SIGKILL)
        assert ends(helper)
    waitpid = os.waitpid

    def meanwhile(pid: int, options: int) -> tuple[int, int]:
        second.close()
        return waitpid(pid, options)

    monkeypatch.setattr(os, "waitpid", meanwhile)
    first.close()


def test_a_helper_that_was_killed_is_an_error_and_the_next_call_has_another() -> None:
    """The out-of-memory killer may kill a helper."""
    bounded = BoundedCalls(PATIENCE_SECONDS)
    helper = bounded(os.getpid)
    os.kill(helper, signal.SIGKILL)
    assert ends(helper)
    with pytest.raises(OSError, match="the process that reads files has ended"):
        bounded(os.getpid)
    assert bounded(os.getpid) != helper


def test_a_helper_holds_nothing_of_its_parent(tmp_path: Path) -> None:
    """A pipe ends with its last writer, so an abandoned helper must not hold it open."""
    with (tmp_path / "held").open("w"):
        found = answered(descriptors)
    assert found[0] == "/dev/null"
    assert {each.partition(":")[0] for each in found} <= {"/dev/null", "pipe", "/proc/self/fd"}
    assert sum(each.startswith("pipe:") for each in found) == 2


def test_another_process_has_another_helper() -> None:
    """A worker of a fleet is a fork, and must not receive its parent's answers."""
    bounded = BoundedCalls(PATIENCE_SECONDS)
    ours = bounded(os.getpid)
    pid = os.fork()
    if not pid:
        os._exit(bounded(os.getpid) == ours)
    assert os.waitpid(pid, 0)[1] == 0
    assert bounded(os.getpid) == ours


UNDONE = """
import os, sys, time
from functools import partial
from ext4audit.sources.timeouts import BoundedCalls, undo
def begin(path):
    open(path, "x").close()
    undo.callback(os.unlink, path)
    return os.getpid()

calls = BoundedCalls(120)
print(calls(partial(begin, sys.argv[1])), flush=True)
time.sleep(300)
"""


def test_undo_functions_run_when_the_parent_dies(tmp_path: Path) -> None:
    """SIGKILL of a scan that writes its report leaves neither a process nor a partial file."""
    place = tmp_path / "half"
    with subprocess.Popen(
        [sys.executable, "-c", UNDONE, place], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        helper = int(parent.stdout.readline())
        assert place.exists()
        parent.kill()
    assert ends(helper)
    assert not place.exists()


def test_paths_of_the_kernel_are_of_this_process() -> None:
    """/dev/stdin and /proc/self/fd/63 name files that the helper does not have."""
    assert answered_for("/dev/stdin", os.getpid) == os.getpid()
    assert answered_for("/proc/self/fd/63", os.getpid) == os.getpid()
    assert answered_for("/dev/../etc/fstab", os.getpid) != os.getpid()
    assert answered_for("/etc/fstab", os.getpid) != os.getpid()


def test_undo_is_empty_here() -> None:
    """Only helpers register undo functions; this process would never run them."""
    answered(partial(undo.callback, os.getpid))
    assert not undo._exit_callbacks  # type: ignore[attr-defined]


def lose_all(budget: WaitBudget, waits: list[float]) -> None:
    """Wait in vain for a thousand places."""
    for number in range(1000):
        waits.append(budget.seconds("tool", f"/dev/{number}"))
        budget.lost("tool", f"/dev/{number}", waits[-1], f"hung-{number}")


def test_each_hang_halves_the_wait() -> None:
    """This holds for one means only; another still has the whole time."""
    budget = WaitBudget(40)
    waits: list[float] = []
    with pytest.raises(Unanswered, match=r"not asked: tool hung [0-9]+ times before, last hung-"):
        lose_all(budget, waits)
    assert waits[:7] == [40, 20, 10, 5, 2.5, 1.25, 1]
    assert 99 <= sum(waits) <= 100
    assert budget.seconds("other", "/dev/0") == 40
    with pytest.raises(Unanswered, match=r"not asked again: tool hung before \(hung-3\)"):
        budget.seconds("tool", "/dev/3")
