"""Run one program to its end, or to the end of our patience."""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, cast

from ext4audit.records import dataclass

_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 1 << 16
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: its status (negative: the signal that ended it) and its output.

    Of stderr the first 64 KiB are kept: the cause is said first, what follows is aftermath.
    """

    status: int
    stdout: bytes
    stderr: bytes


def run(
    argv: Sequence[bytes],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float,
    output_limit_bytes: int,
) -> Finished:
    """Run a program without a shell, without stdin, in a session of its own.

    Raises TimeoutError, and OSError (EFBIG where stdout is beyond its limit). In both cases the
    program is killed together with its children: a hung tool's child holds the same pipe.
    """
    deadline = time.monotonic() + timeout_seconds
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=environment,
        start_new_session=True,
    )
    try:
        stdout, stderr = _drain(process, deadline, output_limit_bytes)
        status = _wait(process, deadline)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise TimeoutError(f"no answer within {timeout_seconds:g} s") from None
    finally:
        _end(process)
    return Finished(status, stdout, stderr)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> int:
    """Return the exit status; raises TimeoutExpired, and TimeoutError on the way.

    Popen.wait with a timeout sleeps between looks: a scan spent 7 ms there after its tools had
    ended. A descriptor of the process is ready the moment it ends (pidfd_open(2), Linux 5.3).
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return process.wait(max(0.0, deadline - time.monotonic()))
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            _ready(selector, deadline)
    finally:
        os.close(descriptor)
    return process.wait(0.0)


def reap(process: subprocess.Popen[bytes], grace_seconds: float) -> bool:
    """Wait for a killed process, but not for ever; return whether it is gone.

    A process in uninterruptible sleep (a device that does not answer) dies when the device
    does. The audit goes on without it.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    return process.returncode is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind, after Ctrl-C either: a session of its own does not get that signal.

    The group is killed before any wait: until its leader is reaped, its number is not reused.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        reap(process, _GRACE_SECONDS)
    for pipe in _pipes(process):
        pipe.close()


def _drain(
    process: subprocess.Popen[bytes], deadline: float, output_limit_bytes: int
) -> tuple[bytes, bytes]:
    """Read both pipes to their ends; raises TimeoutError, OSError(EFBIG)."""
    stdout, stderr = bytearray(), bytearray()
    out, err = _pipes(process)
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ, stdout)
        selector.register(err, selectors.EVENT_READ, stderr)
        while selector.get_map():
            for key in _ready(selector, deadline):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                key.data.extend(chunk)
            if len(stdout) > output_limit_bytes:
                raise OSError(errno.EFBIG, f"printed more than {output_limit_bytes} bytes")
            del stderr[_STDERR_BYTES:]
    return bytes(stdout), bytes(stderr)


def _ready(selector: selectors.BaseSelector, deadline: float) -> list[selectors.SelectorKey]:
    """Wait for output until the deadline.

    The clock is asked each time: a program that prints endlessly is always ready.
    """
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return [key for key, _ in selector.select(remaining)]


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    return cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
