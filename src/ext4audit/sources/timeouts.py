"""Calls that may never return, made in a helper process; and how long it is worth to wait.

A path on a dead server blocks the thread that asks for anything about it, and a request that a
FUSE server has taken cannot be ended by SIGKILL (fs/fuse/dev.c, Linux 6.18): a process with such a
thread never exits, and neither does a process that holds an open file there. So the calls are made
in a child that holds nothing of this process, and that is left behind where it does not answer.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import struct
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from time import monotonic
from typing import Any, NoReturn, TypeVar, cast

from ext4audit.evidence import Known, Why
from ext4audit.sources import Unanswered

try:  # what pickle itself does; its own module costs a scan 8 ms
    from _pickle import dumps, loads
except ImportError:
    from pickle import dumps, loads

R = TypeVar("R")
LONGEST_WAIT_SECONDS = 20.0
"""For one answer about a path that the user names."""
_LENGTH = struct.Struct("=Q")
_CHUNK_BYTES = 1 << 20
_FIRST_FREE = 3
"""The descriptors below are of standard input, output and error, also where they are closed."""
_MOST_DESCRIPTORS = 1024
"""What a process may have by default, where /proc does not tell which it has."""
undo = ExitStack()
"""What a helper does when it ends: functions that it was asked to make add to it."""
_shared: list[BoundedCalls] = []
"""Those of the run of the program that is under way."""
_left: deque[int] = deque()
"""Helpers that were told to end and are not reaped yet."""


class BoundedCalls:
    """Calls with a bounded wait, made in one helper process that is kept for all of them.

    A call and what it returns or raises must be picklable. The helper is a fork: it sees this
    process as it was at the first call. It ends when this object, or this process, does.
    """

    def __init__(self, timeout_seconds: float | None = None) -> None:
        """Wait LONGEST_WAIT_SECONDS for each answer if no time is given."""
        self._timeout_seconds = timeout_seconds
        self._helper: _Helper | None = None

    def __call__(self, call: Callable[[], R], timeout_seconds: float | None = None) -> R:
        """Return what `call` returns, or raise what it raises, or TimeoutError."""
        given = (timeout_seconds, self._timeout_seconds, LONGEST_WAIT_SECONDS)
        seconds = next(each for each in given if each is not None)
        if self._helper is None or self._helper.owner != os.getpid():
            self._helper = _Helper()
        helper, self._helper = self._helper, None
        try:
            answer = helper.ask(call, seconds)
            self._helper = helper
        except TimeoutError:
            helper.kill()
            raise
        finally:
            if self._helper is None:  # its answer may come later, and be taken for another call's
                helper.close()
        if isinstance(answer, Exception):
            try:
                raise answer
            finally:
                del answer  # its traceback holds this frame, and with it the helper
        return cast("Known[R]", answer).value

    def follow(self) -> None:
        """End a helper whose working directory is not ours: a notebook calls os.chdir()."""
        if self._helper is not None and self._helper.directory != _directory():
            self.close()

    def close(self) -> None:
        """End the helper; what it was in the middle of, it undoes."""
        if self._helper is not None and self._helper.owner == os.getpid():
            self._helper.close()
        self._helper = None

    def end(self) -> None:
        """End the helper, which is at work on nothing, and wait until it is gone."""
        helper, self._helper = self._helper, None
        if helper is not None and helper.owner == os.getpid():
            helper.end()

    def __del__(self) -> None:
        """End the helper."""
        self.close()


@contextmanager
def one_helper() -> Iterator[BoundedCalls]:
    """Share one helper among all calls of `answered` in a block, which is a run of the program."""
    bounded = BoundedCalls()
    try:
        with shared(bounded):
            yield bounded
    finally:
        bounded.end()


@contextmanager
def shared(bounded: BoundedCalls) -> Iterator[None]:
    """Make all calls of `answered` in a block with the same helper, which stays."""
    _shared.append(bounded)
    try:
        yield
    finally:
        _shared.remove(bounded)


def calls_of_run(own: BoundedCalls) -> BoundedCalls:
    """Return the calls that a run of the program shares; outside of one, the caller's own."""
    return _shared[-1] if _shared else own


@contextmanager
def bounded_calls() -> Iterator[BoundedCalls]:
    """Return the calls that a run of the program shares; outside of one, those of this block."""
    if _shared:
        yield _shared[-1]
    else:
        with closing(BoundedCalls()) as bounded:
            yield bounded


def answered(call: Callable[[], R]) -> R:
    """Return what a call returns within 20 s; raises what it raises, or TimeoutError."""
    with bounded_calls() as bounded:
        return bounded(call)


def answered_for(path: str, call: Callable[[], R]) -> R:
    """Make a call about a path, as `answered` does if it can lie on a dead server.

    The others are named by the kernel, and some of them (/dev/stdin, /proc/self/fd/63) mean this
    process and no other.
    """
    return call() if is_of_the_kernel(path) else answered(call)


def is_of_the_kernel(path: str) -> bool:
    """Whether a path is one of /proc, /sys or /dev; /dev/shm is a directory for everything."""
    clean = os.path.normpath(path)
    return clean.startswith(("/proc/", "/sys/", "/dev/")) and not clean.startswith("/dev/shm/")  # noqa: S108


class _Helper:
    """A child that makes one call after the other, and the pipes to it."""

    def __init__(self) -> None:
        """Fork; raises OSError."""
        _reap()
        self.owner = os.getpid()
        self.directory = _directory()
        self._is_closed = False
        its_requests, self._requests = _pipe()
        self._answers, its_answers = _pipe()
        self._pid = fork_helper(its_requests, its_answers)
        os.close(its_requests)
        os.close(its_answers)

    def ask(self, call: Callable[[], object], seconds: float) -> Known[Any] | Exception:
        """Return the value or the exception; raises OSError (TimeoutError included)."""
        ends_at = monotonic() + seconds
        try:
            _send(self._requests, dumps(call))
            (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, ends_at, seconds))
            return cast("Known[Any] | Exception", loads(self._receive(length, ends_at, seconds)))  # noqa: S301 - of our own process
        except (BrokenPipeError, EOFError):
            raise OSError("the process that reads files has ended") from None

    def _receive(self, count: int, ends_at: float, seconds: float) -> bytes:
        found = bytearray()
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        while len(found) < count:
            if not poll.poll(max(0.0, ends_at - monotonic()) * 1000):
                raise TimeoutError(f"no answer within {seconds:.3g} s")
            chunk = os.read(self._answers, min(count - len(found), _CHUNK_BYTES))
            if not chunk:
                raise EOFError
            found += chunk
        return bytes(found)

    def kill(self) -> None:
        """Kill it; in uninterruptible sleep, it dies when its server answers or is gone."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Let it end: it reads the end of its requests."""
        if self._release():
            _left.append(self._pid)
            _reap()

    def end(self) -> None:
        """Kill it, and wait until it is gone: not for one that hangs."""
        if self._release():
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)

    def _release(self) -> bool:
        """Close the pipes; False where they are closed already."""
        if self._is_closed:
            return False
        self._is_closed = True
        os.close(self._requests)
        os.close(self._answers)
        return True


def _directory() -> str:
    """Return the working directory, "" where it was removed; the call asks no server."""
    try:
        return os.getcwd()  # noqa: PTH109 - a text
    except FileNotFoundError:
        return ""


def fork_helper(requests: int, answers: int) -> int:
    """Fork a process that makes the calls of one pipe, and answers by the other; return its pid."""
    with warnings.catch_warnings():
        # Of threads, which a progress display has: the child touches nothing that they lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        serve(requests, answers)
    return pid


def _reap() -> None:
    """Reap the helpers that have ended; those that have not are the kernel's when we end.

    Each is taken by one caller: garbage collection, and other threads, close helpers meanwhile.
    """
    for _ in range(len(_left)):
        with suppress(IndexError, ChildProcessError):
            pid = _left.popleft()
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                _left.append(pid)


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are none of the standard streams'."""
    made = os.pipe()
    moved = tuple(fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for each in made)
    for each in made:
        os.close(each)
    return moved[0], moved[1]


def _send(descriptor: int, message: bytes) -> None:
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def serve(requests: int, answers: int) -> NoReturn:
    """Answer until there are no requests any more, as the child; never returns."""
    status = 1
    try:
        gc.disable()  # what it would free holds numbers of descriptors that are others by now
        os.setsid()  # Ctrl-C is for the parent
        _close_all_but(requests, answers)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with undo:
            while _answer_one(requests, answers):
                pass
        status = 0
    finally:
        os._exit(status)


def _close_all_but(*kept: int) -> None:
    """Hold nothing of the parent's: a reader of its output waits for the last writer.

    A container may lack /dev/null, and a chroot /proc.
    """
    try:
        nothing = os.open("/dev/null", os.O_RDWR)
        for stream in range(_FIRST_FREE):
            os.dup2(nothing, stream)
    except OSError:
        os.closerange(0, _FIRST_FREE)
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - our own
    except OSError:
        numbers = list(range(_MOST_DESCRIPTORS))
    for number in numbers:
        if number >= _FIRST_FREE and number not in kept:
            with suppress(OSError):
                os.close(number)


def _answer_one(requests: int, answers: int) -> bool:
    """Make one call and send what comes of it; False where there is none any more."""
    start = _read(requests, _LENGTH.size)
    if not start:
        return False
    message = _read(requests, *_LENGTH.unpack(start))
    try:
        answer = dumps(Known(loads(message)(), ""))  # noqa: S301 - the same
    except Exception as error:  # noqa: BLE001 - raised again in the process that waits
        answer = dumps(error)
    _send(answers, answer)
    return True


def _read(descriptor: int, count: int) -> bytes:
    """Return so many bytes, none where the parent has gone."""
    found = bytearray()
    while len(found) < count:
        chunk = os.read(descriptor, min(count - len(found), _CHUNK_BYTES))
        if not chunk:
            return b""
        found += chunk
    return bytes(found)


_LEAST_SHARE = 1 / 40
_MOST_SHARES = 2.5


class WaitBudget:
    """How long each means (a program, or reading) is waited for, at each place (a device, a path).

    What hung at a place is not asked there again. Each hang halves the wait for the next place,
    down to a fortieth, and two and a half times the time limit is lost with one means at most: one
    dead disk does not hide the healthy ones, and 100 dead disks do not take 100 times as long.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._hung: dict[str, dict[str, str]] = {}
        self._lost_seconds: dict[str, float] = {}

    def seconds(self, means: str, place: str) -> float:
        """Return how long to wait; raises Unanswered where nothing is to be asked any more."""
        hung = self._hung.get(means, {})
        if place in hung:
            raise _given_up(f"not asked again: {means} hung before ({hung[place]})")
        left = _MOST_SHARES * self._timeout_seconds - self._lost_seconds.get(means, 0.0)
        share = max(0.5 ** len(hung), _LEAST_SHARE)
        if left < self._timeout_seconds * _LEAST_SHARE:
            last = list(hung.values())[-1]
            raise _given_up(f"not asked: {means} hung {len(hung)} times before, last {last}")
        return min(self._timeout_seconds * share, left)

    def lost(self, means: str, place: str, seconds: float, detail: str) -> None:
        """Note that nothing came within so many seconds."""
        self._hung.setdefault(means, {})[place] = detail
        self._lost_seconds[means] = self._lost_seconds.get(means, 0.0) + seconds


def _given_up(detail: str) -> Unanswered:
    return Unanswered(Why.TIMED_OUT, detail, "use a longer --timeout")
