"""Run the programs of the allow-list without a shell, with limits on time and output."""

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple, cast

from ext4audit.evidence import Why
from ext4audit.sources import (
    PACKAGES,
    SYSTEM_PATH,
    Unanswered,
    absent,
    checked_output,
    decode,
    denied_hint,
    encode,
)

# The longest expected output is dumpe2fs's group table, 29 MiB for 64 TiB. The limit is about
# twice that, so that an endless output cannot exhaust the memory of a small host.
LARGEST_OUTPUT_BYTES = 64 << 20
ENVIRONMENT = {
    "PATH": ":".join(SYSTEM_PATH),
    "LC_ALL": "C",
    "LANG": "C",
    "TZ": "UTC0",  # dumpe2fs prints local times without a time zone
    "BLKID_FILE": "/dev/null",  # dumpe2fs rewrites blkid's cache after a bad magic number
}
_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 1 << 16
_GRACE_SECONDS = 1.0
# dmsetup also has `remove` and `suspend`, and even `status` commits the metadata of a thin pool
# unless it is given --noflush (dmsetup(8)).
_DMSETUP_VERBS = frozenset({"table", "info", "ls", "deps"})
_DMSETUP_STATUS = ("status", "--noflush")
# Plain dumpe2fs reads every bitmap: 64 MiB per TiB, in random order, from disks that are in use.
_DUMPE2FS_OPTIONS = frozenset({"-h", "-g", "-V"})
_GRUB_INSTALLERS = frozenset({"grub-install", "grub2-install"})
_DMSETUP_NODE = "/dev/mapper/control"


def run_command(
    argv: tuple[str, ...], timeout_seconds: float, search_path: Sequence[str] = SYSTEM_PATH
) -> str:
    """Return the standard output of an allow-listed program; `argv[0]` is its bare name.

    Raises Unanswered or OSError, including TimeoutError. Raises ValueError if the program or its
    arguments are not allowed, which is an error of the caller, not of the host.
    """
    _check_allowed(argv)
    program = locate(argv[0], search_path)
    if argv[0] == "dmsetup" and not os.path.lexists(_DMSETUP_NODE):
        # As root, libdevmapper 1.02.185 creates the directory and the node if they are missing.
        raise Unanswered(Why.ABSENT, f"dmsetup would make {_DMSETUP_NODE}")
    finished = run(
        [encode(program), *map(encode, argv[1:])],
        ENVIRONMENT,
        timeout_seconds=timeout_seconds,
        output_limit_bytes=LARGEST_OUTPUT_BYTES,
    )
    stdout, stderr = decode(finished.stdout), decode(finished.stderr)
    return checked_output(argv[0], finished.status, stdout, stderr, denied_hint())


class Finished(NamedTuple):
    """The exit status of a program (negative: the signal that killed it) and its output.

    Only the first 64 KiB of stderr are kept, because the cause is printed first.
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
    """Run a program in a new session, without a shell and with an empty stdin.

    Raises TimeoutError, or OSError (EFBIG if stdout exceeds its limit). In both cases the program
    is killed together with its children, because they hold the same pipes.
    """
    deadline = time.monotonic() + timeout_seconds
    # SIGINT is blocked until Popen has returned: inside it, Ctrl-C would leak the process.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = _start(argv, environment)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            stdout, stderr = _drain(process, deadline, output_limit_bytes)
            status = _wait(process, deadline)
        finally:
            _end(process)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise TimeoutError(f"no answer within {timeout_seconds:g} s") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return Finished(status, stdout, stderr)


def _start(argv: Sequence[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


def reap(process: subprocess.Popen[bytes], grace_seconds: float) -> bool:
    """Wait a limited time for a killed process; return whether it is gone.

    A process in uninterruptible sleep, because a device does not answer, dies only when the device
    answers or is gone. The audit continues without it.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    return process.returncode is not None


def _check_allowed(argv: tuple[str, ...]) -> None:
    """Raise ValueError if a program or its arguments are not allowed."""
    if not argv or argv[0] not in PACKAGES:
        raise ValueError(f"not a program of the allow-list: {argv[:1]}")
    reads = argv[1:3] == _DMSETUP_STATUS or not _DMSETUP_VERBS.isdisjoint(argv[1:2])
    if argv[0] == "dmsetup" and not reads:
        raise ValueError(f"not a read-only verb of dmsetup: {argv[1:2]}")
    if argv[0] == "dumpe2fs" and _DUMPE2FS_OPTIONS.isdisjoint(argv[1:2]):
        raise ValueError(f"not a dumpe2fs of -h or -g: {argv[1:]}")
    if argv[0] in _GRUB_INSTALLERS and argv[1:] != ("--version",):
        raise ValueError(f"not a question for the version: {argv}")


def locate(name: str, search_path: Sequence[str], package: str = "") -> str:
    """Return the absolute path of a program; raises Unanswered(ABSENT), which names its package."""
    for directory in search_path:
        path = os.path.join(directory, name)  # noqa: PTH118 - pathlib delays the start
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - the same
            return path
    raise absent(name, search_path, package)


def _drain(
    process: subprocess.Popen[bytes], deadline: float, output_limit_bytes: int
) -> tuple[bytes, bytes]:
    """Read stdout and stderr to their ends; raises TimeoutError or OSError(EFBIG)."""
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
    """Return what is ready to read; raises TimeoutError after the deadline.

    The clock is read on every call, because a program that prints endlessly is always ready.
    """
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return [key for key, _ in selector.select(remaining)]


def _wait(process: subprocess.Popen[bytes], deadline: float) -> int:
    """Return the exit status; raises TimeoutExpired or TimeoutError.

    Popen.wait with a timeout polls and sleeps, which cost a scan 7 ms after its tools had ended.
    A pidfd becomes readable as soon as the process ends (pidfd_open(2), Linux 5.3).
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that still runs and close its pipes; a new session does not receive Ctrl-C.

    The process group is killed before the leader is reaped, while its id cannot be reused.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        reap(process, _GRACE_SECONDS)
    for pipe in _pipes(process):
        pipe.close()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    return cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
