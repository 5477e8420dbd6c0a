"""A program run to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from ext4audit.sources.processes import Finished, reap, run


def test_the_status_and_both_outputs_are_kept() -> None:
    """The two streams are kept apart, as bytes."""
    argv = [b"/bin/sh", b"-c", b"printf '\\377'; printf err >&2; exit 7"]
    finished = run(argv, {}, timeout_seconds=20, output_limit_bytes=10)
    assert finished == Finished(7, b"\xff", b"err")


def test_of_stderr_the_beginning_is_kept() -> None:
    """64 KiB of complaints are enough, and the first of them is the cause."""
    argv = [b"/bin/sh", b"-c", b"echo cause >&2; head -c 200000 /dev/zero >&2"]
    finished = run(argv, {"PATH": "/usr/bin:/bin"}, timeout_seconds=20, output_limit_bytes=10)
    assert len(finished.stderr) == 65536
    assert finished.stderr.startswith(b"cause\n")


def test_a_process_that_does_not_die_is_not_waited_for() -> None:
    """Waiting for a process that stays, as one in uninterruptible sleep does, is bounded."""
    process = subprocess.Popen(["sleep", "300"])
    try:
        start = time.monotonic()
        assert reap(process, 0.1) is False
        assert time.monotonic() - start < 10
    finally:
        process.kill()
        assert reap(process, 10) is True


def test_an_interrupted_audit_leaves_no_program_behind(tmp_path: Path) -> None:
    """Ctrl-C reaches the audit only; it ends the program of its own session."""
    pid_file = tmp_path / "pid"
    script = (
        "from ext4audit.sources.processes import run\n"
        f"run([b'/bin/sh', b'-c', b'echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file};"
        " exec sleep 300'], {'PATH': '/usr/bin:/bin'}, timeout_seconds=300, output_limit_bytes=1)"
    )
    audit = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not pid_file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    audit.send_signal(signal.SIGINT)
    assert audit.wait(20) != 0
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
