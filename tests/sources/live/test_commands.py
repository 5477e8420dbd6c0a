"""Programs that succeed, fail, hang, print too much or do not exist.

The programs are scripts in a directory that replaces the system's: `search_path`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import Answer, RunCommand, denied_hint
from ext4audit.sources.live import LiveSource
from ext4audit.sources.live.commands import LARGEST_OUTPUT_BYTES, Finished, reap, run
from support.timing import HANG_SECONDS, PATIENCE_SECONDS, assert_no_waiting, wait_until


def test_the_status_and_both_outputs_are_kept() -> None:
    """Standard output and standard error are kept apart, as bytes."""
    argv = [b"/bin/sh", b"-c", b"printf '\\377'; printf err >&2; exit 7"]
    finished = run(argv, {}, timeout_seconds=PATIENCE_SECONDS, output_limit_bytes=10)
    assert finished == Finished(7, b"\xff", b"err")


def test_beginning_of_stderr_is_kept() -> None:
    """64 KiB of stderr are enough, since the first message is the cause."""
    argv = [b"/bin/sh", b"-c", b"echo cause >&2; head -c 200000 /dev/zero >&2"]
    finished = run(
        argv, {"PATH": "/usr/bin:/bin"}, timeout_seconds=PATIENCE_SECONDS, output_limit_bytes=10
    )
    assert len(finished.stderr) == 65536
    assert finished.stderr.startswith(b"cause\n")


def test_a_process_that_does_not_die_is_not_waited_for() -> None:
    """The wait for a process that does not end, as in uninterruptible sleep, is bounded."""
    process = subprocess.Popen(["sleep", str(HANG_SECONDS)])
    try:
        with assert_no_waiting():
            assert reap(process, 0.1) is False
    finally:
        process.kill()
        assert reap(process, PATIENCE_SECONDS) is True


def test_an_interrupted_audit_leaves_no_program_behind(tmp_path: Path) -> None:
    """Ctrl-C reaches only the audit, which ends the program in its separate session."""
    pid_file = tmp_path / "pid"
    script = (
        "from ext4audit.sources.live.commands import run\n"
        f"run([b'/bin/sh', b'-c', b'echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file};"
        " exec sleep 300'], {'PATH': '/usr/bin:/bin'}, timeout_seconds=300, output_limit_bytes=1)"
    )
    audit = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    assert wait_until(pid_file.exists)
    audit.send_signal(signal.SIGINT)
    assert audit.wait(PATIENCE_SECONDS) != 0
    pid = int(pid_file.read_text())
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())


class InterruptedStart(subprocess.Popen[bytes]):
    """A program that has started when Ctrl-C arrives, but is not yet known to its caller."""

    started: ClassVar[list[int]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.started.append(self.pid)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)


def test_an_interrupt_while_a_program_starts_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interrupt is handled once the program is known and can be ended."""
    monkeypatch.setattr(subprocess, "Popen", InterruptedStart)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run([b"/bin/sleep", b"300"], {}, timeout_seconds=300, output_limit_bytes=1)
    finally:
        signal.signal(signal.SIGINT, before)
    (pid,) = InterruptedStart.started
    assert not Path(f"/proc/{pid}").exists()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


LSBLK = RunCommand(("lsblk",))
TRIES = 100
"""On a busy machine half a second can pass before a program has started."""


def tool(directory: Path, script: str, name: str = "lsblk") -> LiveSource:
    """Write a program there, and return a source that finds it."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return LiveSource(PATIENCE_SECONDS, search_path=(str(directory),))


def fetch_until_written(directory: Path, file: Path) -> tuple[LiveSource, Answer]:
    """Run a program that hangs, until one has written a file before its timeout."""
    for _ in range(TRIES):
        source = LiveSource(0.5, search_path=(str(directory),))
        answer = source.fetch(LSBLK)
        if file.exists() and file.read_text().endswith("\n"):
            return source, answer
    raise AssertionError(f"in {TRIES} times half a second, nothing was written")


def linked(directory: Path, target: str) -> LiveSource:
    """Link one of the system's programs there, under the name of lsblk."""
    (directory / "lsblk").symlink_to(target)
    return LiveSource(PATIENCE_SECONDS, search_path=(str(directory),))


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def assert_all_end(pids: list[int]) -> None:
    """Wait until the killed processes have ended; a survivor would run for minutes."""
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_the_output_is_the_answer(tmp_path: Path) -> None:
    """The answer is the stdout of the command line, without stderr."""
    source = tool(tmp_path, 'echo "$#:$1"; echo noise >&2')
    answer = source.fetch(RunCommand(("lsblk", "-J $(id)")))
    assert answer == Known("1:-J $(id)\n", "lsblk -J $(id)")


def test_undecodable_output_is_kept(tmp_path: Path) -> None:
    """A byte that is not UTF-8 becomes a surrogate, in the output and in the detail."""
    assert tool(tmp_path, "printf '\\377\\n'").fetch(LSBLK) == Known("\udcff\n", "lsblk")
    failed = tool(tmp_path, "printf 'bad \\377\\n' >&2; exit 2").fetch(LSBLK)
    assert failed == Unknown("lsblk", Why.FAILED, "bad \udcff (exit status 2)")


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("echo 'lsblk: /dev/x: not a block device' >&2; exit 32", "lsblk: /dev/x: not a block"),
        ("exit 3", "exit status 3"),
        ("kill -9 $$", "killed by signal 9"),
        ("echo only stdout; exit 1", "only stdout (exit status 1)"),
        ("echo cause >&2; echo 'Command failed.' >&2; exit 1", "cause (exit status 1)"),
        (
            """echo "Couldn't find valid filesystem superblock."
            echo 'dumpe2fs 1.47.0 (5-Feb-2023)' >&2
            echo 'dumpe2fs: Bad magic number in super-block while opening x' >&2; exit 19""",
            "dumpe2fs: Bad magic number in super-block while opening x (exit status 19)",
        ),
    ],
)
def test_failure_detail_is_the_cause(tmp_path: Path, script: str, detail: str) -> None:
    """The detail is the relevant line, not a banner and not a consequential error."""
    answer = tool(tmp_path, script).fetch(LSBLK)
    assert isinstance(answer, Unknown)
    assert answer.why is Why.FAILED
    assert answer.detail.startswith(detail)


@pytest.mark.parametrize(
    "line",
    [
        "dumpe2fs: Permission denied while trying to open /dev/vda",
        "dumpe2fs: Operation not permitted while trying to open /dev/vda",
        "tool: must be root to do this",
        "tool: must be superuser to do this",
    ],
)
def test_permission_error_is_denied(tmp_path: Path, line: str) -> None:
    """The Unknown of a program that the kernel refused has a hint."""
    answer = tool(tmp_path, f"echo '{line}' >&2; exit 13").fetch(LSBLK)
    assert answer == Unknown("lsblk", Why.DENIED, f"{line} (exit status 13)", denied_hint())


def test_bare_metal_is_known(tmp_path: Path) -> None:
    """systemd-detect-virt prints "none" with exit status 1, which is not a failure."""
    source = tool(tmp_path, "echo none; exit 1", "systemd-detect-virt")
    answer = source.fetch(RunCommand(("systemd-detect-virt",)))
    assert answer == Known("none\n", "systemd-detect-virt")


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("lsblk", "util-linux"),
        ("findmnt", "util-linux"),
        ("dumpe2fs", "e2fsprogs"),
        ("dmsetup", "dmsetup (Debian) or device-mapper (RHEL)"),
        ("systemd-detect-virt", "systemd"),
    ],
)
def test_a_missing_program_names_its_package(tmp_path: Path, name: str, package: str) -> None:
    """The hint names the package."""
    source = LiveSource(search_path=(str(tmp_path),))
    argument = "-h" if name == "dumpe2fs" else "table"
    answer = source.fetch(RunCommand((name, argument)))
    expected = Unknown(
        f"{name} {argument}", Why.ABSENT, f"no {name} in {tmp_path}", f"install {package}"
    )
    assert answer == expected


def test_a_file_that_is_not_executable_is_not_the_program(tmp_path: Path) -> None:
    """A directory and a plain file of that name are skipped."""
    (tmp_path / "lsblk").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "lsblk").mkdir()
    source = LiveSource(search_path=(str(tmp_path), str(tmp_path / "other")))
    answer = source.fetch(LSBLK)
    assert isinstance(answer, Unknown)
    assert answer.why is Why.ABSENT


def test_a_program_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    """A file that the kernel cannot execute is unknown with the kernel's message."""
    (tmp_path / "lsblk").write_bytes(b"\x7fELF damaged")
    (tmp_path / "lsblk").chmod(0o755)
    answer = LiveSource(search_path=(str(tmp_path),)).fetch(LSBLK)
    assert answer == Unknown("lsblk", Why.FAILED, "Exec format error")


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("rm", "-rf", "/"),
        ("/usr/bin/lsblk",),
        ("../lsblk",),
        ("dmsetup",),
        ("dmsetup", "remove_all"),
        ("dmsetup", "status"),
        ("dmsetup", "status", "-j", "253", "-m", "0"),
        ("dmsetup", "status", "vg-pool", "--noflush"),
        ("dumpe2fs", "/dev/sda1"),
        ("dumpe2fs",),
        ("grub-install",),
        ("grub-install", "/dev/sda"),
        ("grub2-install", "--version", "/dev/sda"),
    ],
)
def test_commands_outside_the_allow_list_raise(argv: tuple[str, ...]) -> None:
    """No ask can run another program, a writing subcommand, or a dump of all bitmaps."""
    with pytest.raises(ValueError, match="not a"):
        LiveSource().fetch(RunCommand(argv))


def test_path_of_the_user_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the user's does not replace the system's."""
    tool(tmp_path, "echo planted")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    answer = LiveSource().fetch(RunCommand(("lsblk", "--version")))
    assert "planted" not in str(answer)


def test_dmsetup_is_not_run_without_its_device_node(tmp_path: Path) -> None:
    """Without a device-mapper node dmsetup run as root makes one, so it is not run."""
    source = tool(tmp_path, "echo ran", "dmsetup")
    answer = source.fetch(RunCommand(("dmsetup", "table")))
    if Path("/dev/mapper/control").exists():
        assert answer == Known("ran\n", "dmsetup table")
    else:
        detail = "dmsetup would make /dev/mapper/control"
        assert answer == Unknown("dmsetup table", Why.ABSENT, detail)


def test_the_environment_is_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's environment reaches a program."""
    monkeypatch.setenv("LD_PRELOAD_NOT", "x")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    answer = linked(tmp_path, "/usr/bin/env").fetch(LSBLK)
    assert isinstance(answer, Known)
    assert sorted(answer.value.split()) == [
        "BLKID_FILE=/dev/null",
        "LANG=C",
        "LC_ALL=C",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin",
        "TZ=UTC0",
    ]


def test_program_has_no_stdin_and_runs_in_the_root_directory(tmp_path: Path) -> None:
    """A program that reads stdin ends at once, and none keeps a directory busy."""
    assert linked(tmp_path, "/bin/cat").fetch(LSBLK) == Known("", "lsblk")
    where = tool(tmp_path, "pwd", "findmnt").fetch(RunCommand(("findmnt",)))
    assert where == Known("/\n", "findmnt")


def test_a_hung_program_ends_with_its_children(tmp_path: Path) -> None:
    """After the timeout nothing is left, and the hint tells how to wait longer."""
    pids = tmp_path / "pids"
    script = f"sleep {HANG_SECONDS} & echo $! $$ >{pids}; sleep {HANG_SECONDS}"
    tool(tmp_path, script)
    with assert_no_waiting():
        _, answer = fetch_until_written(tmp_path, pids)
    hint = "use a longer --timeout"
    assert answer == Unknown("lsblk", Why.TIMED_OUT, "no answer within 0.5 s", hint)
    assert_all_end([int(pid) for pid in pids.read_text().split()])


def test_a_child_that_keeps_the_pipe_open_is_ended(tmp_path: Path) -> None:
    """A child that outlives its program does not delay the answer without limit."""
    pids = tmp_path / "pids"
    tool(tmp_path, f"sleep {HANG_SECONDS} & echo $! >{pids}; exit 0")
    _, answer = fetch_until_written(tmp_path, pids)
    assert isinstance(answer, Unknown)
    assert answer.why is Why.TIMED_OUT
    assert_all_end([int(pids.read_text())])


def test_a_hung_program_is_waited_for_once(tmp_path: Path) -> None:
    """If the same is asked again, the stored answer is returned."""
    count = tmp_path / "count"
    tool(tmp_path, f"echo x >>{count}; sleep {HANG_SECONDS}")
    source, first = fetch_until_written(tmp_path, count)
    assert source.fetch(LSBLK) == first
    assert count.read_text() == "x\n"


def test_endless_output_is_cut(tmp_path: Path) -> None:
    """A program that prints without end is ended at the limit."""
    pids = tmp_path / "pids"
    source = tool(tmp_path, f"echo $$ >{pids}; exec yes 0123456789012345678901234567890123456789")
    answer = source.fetch(LSBLK)
    assert answer == Unknown("lsblk", Why.FAILED, "printed more than 67108864 bytes")
    assert_all_end([int(pids.read_text())])


def test_output_at_the_limit_is_complete(tmp_path: Path) -> None:
    """64 MiB are within the limit."""
    answer = tool(tmp_path, f"head -c {LARGEST_OUTPUT_BYTES} /dev/zero").fetch(LSBLK)
    assert isinstance(answer, Known)
    assert len(answer.value) == 64 << 20


def test_endless_stderr_times_out(tmp_path: Path) -> None:
    """Little of stderr is kept, and a program that never stops printing still times out."""
    tool(tmp_path, "exec yes >&2")
    answer = LiveSource(0.5, search_path=(str(tmp_path),)).fetch(LSBLK)
    assert isinstance(answer, Unknown)
    assert answer.why is Why.TIMED_OUT


def test_large_stderr_does_not_block_stdout(tmp_path: Path) -> None:
    """Both pipes are read, so a program that fills stderr first still answers."""
    source = tool(tmp_path, "head -c 1000000 /dev/zero >&2; echo answer")
    assert source.fetch(LSBLK) == Known("answer\n", "lsblk")
