"""Make calls that may never return in a helper process, and limit how long to wait for them.

A path on a dead server blocks every thread that accesses it, and SIGKILL does not interrupt a
request that a FUSE server has accepted (fs/fuse/dev.c, Linux 6.18): a process with such a thread
never exits, nor does a process with an open file there. Such calls are therefore made in a child
process that shares no descriptors with this process, and that is abandoned if it does not answer.
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
from typing import Any, NoReturn, Protocol, TypeVar, cast

from ext4audit.evidence import Known, Why
from ext4audit.sources import Unanswered

try:  # as pickle itself does; importing the pickle module would cost a scan 8 ms
    from _pickle import dumps, loads
except ImportError:
    from pickle import dumps, loads

R = TypeVar("R")
LONGEST_WAIT_SECONDS = 20.0
"""The default time limit of one call, for paths that the user gives."""
_LENGTH = struct.Struct("=Q")
_CHUNK_BYTES = 1 << 20
_FIRST_FREE = 3
"""The lowest descriptor that is never standard input, output or error, even if those are closed."""
_MOST_DESCRIPTORS = 1024
"""The default limit of open files, assumed if /proc does not list the open ones."""
undo = ExitStack()
"""Clean-up that a helper performs when it ends; the calls made in it register their own."""
_shared: list[BoundedCalls] = []
"""The calls of the current run, innermost last; empty outside of a run."""
_unreaped: deque[int] = deque()
"""Process ids of helpers that were closed but are not reaped yet."""


class Readable(Protocol):
    """A binary file, or an object that reads one with a time limit."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes, and b"" at the end."""
        ...


class BoundedCalls:
    """Calls with a time limit, all made in one helper process.

    A call and its result or exception must be picklable. The helper is forked at the first call
    and keeps the state of this process at that time. It ends with this object or this process.
    """

    def __init__(self, timeout_seconds: float | None = None) -> None:
        """Set the time limit of each call; the default is LONGEST_WAIT_SECONDS."""
        self._timeout_seconds = timeout_seconds
        self._helper: _Helper | None = None

    def __call__(self, call: Callable[[], R], timeout_seconds: float | None = None) -> R:
        """Return what `call` returns; raises what it raises, or TimeoutError."""
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
            if self._helper is None:  # a late answer could be mistaken for that of another call
                helper.close()
        if isinstance(answer, Exception):
            try:
                raise answer
            finally:
                del answer  # its traceback refers to this frame, and so keeps the helper alive
        return cast("Known[R]", answer).value

    def follow(self) -> None:
        """End the helper if this process has changed directory since, as a notebook may."""
        if self._helper is not None and self._helper.directory != _directory():
            self.close()

    def close(self) -> None:
        """Let the helper end on its own, after it has run its `undo` functions; do not wait."""
        if self._helper is not None and self._helper.owner == os.getpid():
            self._helper.close()
        self._helper = None

    def end(self) -> None:
        """Kill the helper, which must be idle, and wait until it is gone."""
        helper, self._helper = self._helper, None
        if helper is not None and helper.owner == os.getpid():
            helper.end()

    def __del__(self) -> None:
        """End the helper."""
        self.close()


@contextmanager
def one_helper() -> Iterator[BoundedCalls]:
    """Start a run: all calls of `answered` in the block share one helper, which ends with it."""
    bounded = BoundedCalls()
    try:
        with shared(bounded):
            yield bounded
    finally:
        bounded.end()


@contextmanager
def shared(bounded: BoundedCalls) -> Iterator[None]:
    """Use `bounded` for all calls of `answered` in the block, and leave its helper running."""
    _shared.append(bounded)
    try:
        yield
    finally:
        _shared.remove(bounded)


def calls_of_run(own: BoundedCalls) -> BoundedCalls:
    """Return the shared calls of the current run, or `own` outside of a run."""
    return _shared[-1] if _shared else own


@contextmanager
def bounded_calls() -> Iterator[BoundedCalls]:
    """Yield the shared calls of the current run; outside of a run, new ones for this block."""
    if _shared:
        yield _shared[-1]
    else:
        with closing(BoundedCalls()) as bounded:
            yield bounded


def answered(call: Callable[[], R]) -> R:
    """Return what a call returns; raises what it raises, or TimeoutError after 20 s."""
    with bounded_calls() as bounded:
        return bounded(call)


def answered_for(path: str, call: Callable[[], R]) -> R:
    """Make a call about a path: through `answered` if the path may be on a dead server.

    Paths of kernel filesystems are accessed directly, because some of them (/dev/stdin,
    /proc/self/fd/63) refer to the process that opens them.
    """
    return call() if is_of_the_kernel(path) else answered(call)


def is_of_the_kernel(path: str) -> bool:
    """Return whether a path is in /proc, /sys or /dev, except /dev/shm, which holds user files."""
    clean = os.path.normpath(path)
    return clean.startswith(("/proc/", "/sys/", "/dev/")) and not clean.startswith("/dev/shm/")  # noqa: S108


class _Helper:
    """A child process that makes one call at a time, and the pipes to it."""

    def __init__(self) -> None:
        """Fork the child; raises OSError."""
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
        """Return the value or the exception of a call; raises OSError, including TimeoutError."""
        ends_at = monotonic() + seconds
        try:
            _send(self._requests, dumps(call))
            (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, ends_at, seconds))
            return cast("Known[Any] | Exception", loads(self._receive(length, ends_at, seconds)))  # noqa: S301 - from our own child
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
        """Send SIGKILL; in uninterruptible sleep, it waits until the server answers or ends."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Let the child end, by closing its pipe of requests; do not wait for it."""
        if self._release():
            _unreaped.append(self._pid)
            _reap()

    def end(self) -> None:
        """Kill the child and wait until it is gone; never call this for one that hangs."""
        if self._release():
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)

    def _release(self) -> bool:
        """Close the pipes; returns False if they were closed already."""
        if self._is_closed:
            return False
        self._is_closed = True
        os.close(self._requests)
        os.close(self._answers)
        return True


def _directory() -> str:
    """Return the working directory, or "" if it was removed; the call contacts no server."""
    try:
        return os.getcwd()  # noqa: PTH109 - a string is enough
    except FileNotFoundError:
        return ""


def fork_helper(requests: int, answers: int) -> int:
    """Fork a process that reads calls from one pipe and answers on the other; return its pid."""
    with warnings.catch_warnings():
        # Python warns about threads (a progress display); the child uses none of their locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        serve(requests, answers)
    return pid


def _reap() -> None:
    """Reap the helpers that have ended; when this process ends, init reaps the others.

    Each pid is popped first, because garbage collection and other threads may close helpers too.
    """
    for _ in range(len(_unreaped)):
        with suppress(IndexError, ChildProcessError):
            pid = _unreaped.popleft()
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                _unreaped.append(pid)


def _pipe() -> tuple[int, int]:
    """Return the two ends of a pipe, with descriptors above those of the standard streams."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for each in ends)
    for each in ends:
        os.close(each)
    return moved[0], moved[1]


def _send(descriptor: int, message: bytes) -> None:
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def serve(requests: int, answers: int) -> NoReturn:
    """Answer requests in the child until their pipe is closed, then exit; never returns."""
    status = 1
    try:
        gc.disable()  # a freed object could close a descriptor number that is in use again
        os.setsid()  # Ctrl-C must reach the parent only
        _close_all_but(requests, answers)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with undo:
            while _answer_one(requests, answers):
                pass
        status = 0
    finally:
        os._exit(status)


def _close_all_but(*kept: int) -> None:
    """Close the parent's descriptors: a reader of its output would wait for the helper to end.

    /dev/null may be missing in a container, and /proc in a chroot.
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
    """Make one call and send its result or exception; returns False if the requests have ended."""
    start = _read(requests, _LENGTH.size)
    if not start:
        return False
    message = _read(requests, *_LENGTH.unpack(start))
    try:
        answer = dumps(Known(loads(message)(), ""))  # noqa: S301 - of our parent process
    except Exception as error:  # noqa: BLE001 - raised again in the process that waits
        answer = dumps(error)
    _send(answers, answer)
    return True


def _read(descriptor: int, count: int) -> bytes:
    """Return exactly `count` bytes, or b"" if the parent has closed the pipe."""
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
    """The time limits of each means (a program, or reading) at each place (a device, a path).

    A means that hung at a place is not used there again. Each hang halves the time limit at the
    next place, down to a fortieth, and one means may lose 2.5 times the time limit in total. One
    dead disk thus does not hide the healthy ones, and 100 dead disks do not take 100 times as long.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._hung: dict[str, dict[str, str]] = {}
        self._lost_seconds: dict[str, float] = {}

    def seconds(self, means: str, place: str) -> float:
        """Return how long to wait; raises Unanswered if there is no time left for this."""
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
        """Record that no answer came within `seconds`."""
        self._hung.setdefault(means, {})[place] = detail
        self._lost_seconds[means] = self._lost_seconds.get(means, 0.0) + seconds


def _given_up(detail: str) -> Unanswered:
    return Unanswered(Why.TIMED_OUT, detail, "use a longer --timeout")
