"""A process that has loaded the program, and runs it in a forked copy for each request.

A fork takes a tenth of the time of a new interpreter, and less than half the time of a fork of the
test process, whose memory is large. `support.program.run` is the client.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import ext4audit
from ext4audit import facts, rules
from ext4audit.sources import timeouts

LARGEST_REQUEST_BYTES = 150_000
"""Maximum length of a request, which is one message: far below the buffer of a socket."""
NOT_LOADED = ("ext4audit.__main__", "ext4audit.sources.ansible.snapshot_action")
"""Modules that cannot be preloaded: importing the first runs it, the second needs Ansible."""
NOBODY = 65534
fork_helper = timeouts.fork_helper
LOADED_IN = os.getpid()


class TooLongError(Exception):
    """The program exceeded its time limit."""


class TooLargeError(Exception):
    """The request does not fit into one message."""


def run_copy(
    arguments: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    streams: Sequence[int],
    as_nobody: bool,
    seconds: float,
) -> int:
    """Run the program in a copy of the loaded process and return its exit code.

    Its standard input, output and error are the descriptors `streams`.

    Raises TooLongError if it exceeds `seconds`, TooLargeError if the request is too large.
    """
    message = _message(arguments, env, cwd, as_nobody=as_nobody)
    if len(message) > LARGEST_REQUEST_BYTES:
        raise TooLargeError
    connection, launcher = _launcher()
    connection.settimeout(seconds)
    try:
        socket.send_fds(connection, [message], streams)
        answer = connection.recv(100)
    except TimeoutError:
        os.killpg(launcher.pid, signal.SIGKILL)
        _launcher.cache_clear()
        raise TooLongError from None
    return os.waitstatus_to_exitcode(int(answer))


def start_helper(requests: int, answers: int) -> int:
    """Start a helper like `fork_helper`, but in a copy of the loaded process; return its PID.

    The copy has the directory, environment and umask of this process, but the modules as they were
    loaded. A fork of this process calls `fork_helper`, because it shares the connection with its
    parent.
    """
    if os.getpid() != LOADED_IN:
        return fork_helper(requests, answers)
    connection, _ = _launcher()
    message = _message(None, os.environ, str(Path.cwd()))
    socket.send_fds(connection, [message], [requests, answers])
    return int(connection.recv(100))


def _message(
    arguments: Sequence[str] | None,
    env: Mapping[str, str],
    cwd: str,
    *,
    as_nobody: bool = False,
) -> bytes:
    """Return the request for a copy; None for `arguments` requests a helper."""
    request = {
        "arguments": arguments,
        "env": dict(env),
        "cwd": cwd,
        "umask": _umask(),
        "as_nobody": as_nobody,
    }
    return json.dumps(request).encode()


def _umask() -> int:
    """Return the umask of this process, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@cache
def _launcher() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the process; it ends when the test process closes its end of the socket."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        return mine, _start(its)


def _start(*sockets: socket.socket) -> subprocess.Popen[bytes]:
    """Start this module as a program that inherits the given sockets."""
    numbers = [each.fileno() for each in sockets]
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, numbers)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.DEVNULL,
        pass_fds=numbers,
        start_new_session=True,  # Ctrl-C on the terminal must reach only the test process
    )


CLIENT = """\
import json, os, socket, sys
mask = os.umask(0o077)
request = {
    "arguments": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd(), "umask": mask,
    "as_nobody": False,
}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [json.dumps(request).encode()], (0, 1, 2))
    code = os.waitstatus_to_exitcode(int(connection.recv(100)))
sys.exit(code if code >= 0 else 128 - code)
"""
"""A program that runs `ext4audit` in a copy, with its own arguments, streams and environment."""


@cache
def _at_an_address() -> tuple[Path, list[object]]:
    """Start a process for clients that are not children; return its address and what keeps it.

    It ends when this process ends.
    """
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = tempfile.TemporaryDirectory()
    address = Path(folder.name) / "socket"
    with its, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(address))
        listening.listen()
        return address, [mine, folder, _start(its, listening)]


def shell_command() -> str:
    """Return the shell command, without arguments, that runs the program in a copy."""
    address, _ = _at_an_address()
    return f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(CLIENT)} {address}"


def serve_each(ending: socket.socket, listening: socket.socket) -> None:
    """Serve each client in a separate process: the programs of a pipeline run in parallel."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while ending not in select.select([ending, listening], [], [])[0]:
        connection, _ = listening.accept()
        with connection:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                ending.close()
                listening.close()
                serve(connection)
                os._exit(0)


def serve(connection: socket.socket) -> None:
    """Run one request after the other until the connection is closed.

    The answer is the wait status of a program, or immediately the PID of a helper.
    """
    helpers: list[int] = []
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, LARGEST_REQUEST_BYTES, 3)
        if not message:
            return
        request = json.loads(message)
        is_helper = request["arguments"] is None
        child = os.fork()
        if child == 0:
            connection.close()
            (run_helper if is_helper else run_program)(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if is_helper:
            answer = child
            helpers.append(child)
        else:
            _, answer = os.waitpid(child, 0)
        connection.send(str(answer).encode())
        helpers = [pid for pid in helpers if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def run_program(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Run like `python -m ext4audit`, with the standard streams of a new interpreter."""
    try:
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
            os.close(descriptor)
        sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        adopt_client_state(request)
        main = importlib.import_module("ext4audit.__main__").main
        if request["as_nobody"]:  # after the import: nobody may not read a clone below /root
            drop_privileges()
        sys.argv = ["ext4audit", *request["arguments"]]
        main()
    except BaseException:  # noqa: BLE001 - a copy must not continue as the launcher
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)


def run_helper(request: Mapping[str, Any], pipes: Sequence[int]) -> NoReturn:
    """Run as the helper of an audit, which makes the calls that may hang."""
    try:
        adopt_client_state(request)
        timeouts.serve(*pipes)
    finally:
        os._exit(70)


def adopt_client_state(request: Mapping[str, Any]) -> None:
    """Set the environment, the directory and the umask of the client."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    os.umask(request["umask"])


def load_modules() -> None:
    """Import every module of the program, and read its tables.

    The interpreter may be readable by root only; after this, none of its files is read again.
    """
    for module in pkgutil.walk_packages(ext4audit.__path__, "ext4audit."):
        if module.name not in NOT_LOADED:
            importlib.import_module(module.name)
    for name in "difflib gzip pyudev rich.console rich.status tarfile tempfile".split():
        importlib.import_module(name)
    importlib.import_module("rich.cells").cell_len("\u4e00")
    knowledge = importlib.import_module("ext4audit.facts.knowledge")
    for table in knowledge.TABLES.values():
        facts.read_table(table.file)
    rules.all_rules()


def drop_privileges() -> None:
    """Become the user nobody, who can read only public files."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


if __name__ == "__main__":
    given = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    load_modules()
    gc.collect()
    gc.freeze()  # a garbage collection in a fork would write to, and so copy, all pages
    (serve if len(given) == 1 else serve_each)(*given)
