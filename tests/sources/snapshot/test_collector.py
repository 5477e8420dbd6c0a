"""The shell collector: its answers in every shell and on every system."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from ext4audit.assemble.devices.fstab import COLUMNS
from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Known, Unknown, Why, need
from ext4audit.parsers import decode_octal
from ext4audit.sources import (
    Answer,
    Ask,
    EffectiveUser,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    UdevDatabase,
    Uname,
    VirtualMemory,
)
from ext4audit.sources.captured import BEGIN, END, unwrap
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot import collector as module
from ext4audit.sources.snapshot.writing import RecordingSource
from support.hosts.evidence_host import HostEvidence
from support.shells.collector import (
    NOBODY,
    SCRIPT,
    SCRIPT_WITHOUT_WAIT,
    SHELLS,
    TAKEN_AT,
    captured,
    changed,
    collect,
    collected_once,
    differing_answers,
    entries,
    leftovers,
    manifest,
    manifest_answers,
    some_shells,
    status_after,
    with_one_second_limit,
    with_seconds,
)
from support.timing import HANG_SECONDS, assert_no_waiting, wait_until

SOURCE = Path(module.__file__).with_name("collect.sh")
LARGEST_BYTES = 12_288
"""16 KiB as base64, the limit of run-command services."""
OF_A_LOOP = re.compile(rb'{"ask":.*?\b(?:loop\d+|7:\d+)\b.*?"(?:origin|status|unknown)":')
"""The line of an answer about a loop device."""
LARGEST_LEAN_BYTES = 18_000
"""AWS Systems Manager returns the first 24,000 characters of standard output."""
one_run = pytest.mark.xdist_group("collector")
"""Marks tests that share one run of the script, so that one worker runs it once for all."""


def answers_of_lean_text(shell: str) -> dict[Ask, Answer]:
    """Return the answers that `--lean --text` captures."""
    return manifest_answers(
        gzip.decompress(unwrap(collected_once(shell, "--lean", "--text").stdout))
    )


def test_the_script_fits_a_run_command_service() -> None:
    """The printed script has at most 12 KiB, and so 16 KiB as base64."""
    assert len(SCRIPT.encode()) <= LARGEST_BYTES


def test_the_script_says_what_it_does_and_by_whom_it_was_made() -> None:
    """Its first lines have version, usage and effect; the comments for developers are removed."""
    lines = SCRIPT.splitlines()
    assert lines[0] == "#!/bin/sh"
    assert re.fullmatch(r"# ext4audit [0-9.]+\S*: .*", lines[1])
    assert [line for line in lines[7:] if line.startswith("# ")] == []
    assert "@VERSION@" not in SCRIPT


def test_the_script_never_evaluates_what_it_reads() -> None:
    """The script has neither `eval` nor `source`."""
    assert re.search(r"\b(eval|source)\b|^\s*\. ", SOURCE.read_text(), re.MULTILINE) is None


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", [SCRIPT, SOURCE.read_text()], ids=["sent", "kept"])
def test_every_shell_can_parse_the_script(shell: str, text: str) -> None:
    """Neither form uses a construct that one of the shells lacks."""
    done = subprocess.run([*shell.split(), "-n"], input=text.encode(), check=False)
    assert done.returncode == 0


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
@pytest.mark.parametrize("text", [SCRIPT, SOURCE.read_text()], ids=["sent", "kept"])
def test_shellcheck_finds_nothing(text: str) -> None:
    """The dialect is POSIX, and no finding is suppressed."""
    command = ["shellcheck", "--shell=sh", "--norc", "--enable=all", *EXCLUDED, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert "shellcheck disable" not in text


EXCLUDED = ("--exclude=SC2250,SC2310,SC2312,SC2249,SC2248",)
"""Optional matters of style, and the warning that `set -e`, which is not used, has no effect."""


def test_lsblk_is_asked_as_the_live_source_asks() -> None:
    """The columns are those of the live source, since other columns would be another ask."""
    assert COLUMNS in SCRIPT.split()


@pytest.mark.xdist_group("kernel")
@some_shells
@pytest.mark.usefixtures("steady_limits")
def test_script_and_live_source_give_the_same_answers(shell: str) -> None:
    """Each ask has the same answer in both, unknowns included.

    It shares a group with the tests that make loop devices, which the whole machine sees.
    """
    assert differing_answers(shell) == {}


@one_run
def test_script_captures_every_fallback() -> None:
    """Every fallback is captured, even if this machine does not need it."""
    bare = RecordingSource(HostEvidence().source())
    assemble_host(bare, TAKEN_AT)
    fixed = {ask for ask in bare.answers if isinstance(ask, (ReadFile, RealPath))}
    assert ReadFile("/usr/lib/os-release") in fixed
    lacking = fixed - manifest_answers(manifest(collected_once("sh"))).keys()
    assert not lacking, "capture() of collect.sh lacks them"


@one_run
@some_shells
def test_the_user_who_ran_it_is_recorded(shell: str) -> None:
    """So are the kernel and the size of memory."""
    answers = answers_of_lean_text(shell)
    name = os.uname()
    expected = f"{name.release}\n{name.version}\n{name.machine}\n{name.nodename}"
    assert answers[EffectiveUser()] == Known(str(os.geteuid()), "effective user")
    assert answers[Uname()] == Known(expected, "uname")
    total, available = map(int, str(need(answers[VirtualMemory()])).split("\n"))
    assert 0 < available < total == psutil.virtual_memory().total


def test_arithmetic_fits_32_bits() -> None:
    """In mksh, with 32 bits, device major 254 once became 61694, and 24 GiB became 3.5."""
    for expression in re.findall(r"\$\(\((.*?)\)\)", SOURCE.read_text()):
        assert [n for n in re.findall(r"\b\d+\b", expression) if int(n) >= 1 << 31] == [], (
            expression
        )
        assert [n for n in re.findall(r"(?:>>|<<) (\d+)", expression) if int(n) > 31] == []
        assert "* 1024" not in expression


def test_a_shell_of_32_bits_counts_right() -> None:
    """Device numbers and the size of memory do not go through the shell's arithmetic."""
    answers = manifest_answers(manifest(collect("mksh", "--lean")))
    number = Path("/").stat().st_dev
    resolved = LiveSource().fetch(ResolvePath("/"))
    assert f"device_number={os.major(number)}:{os.minor(number)}" in str(need(resolved))
    assert answers.get(ResolvePath("/"), resolved) == resolved
    assert str(need(answers[VirtualMemory()])).split("\n")[0] == str(psutil.virtual_memory().total)


@some_shells
@pytest.mark.usefixtures("steady_limits")
def test_sysctl_values_are_whole(shell: str) -> None:
    """If the shell reads byte by byte, a file of /proc/sys gives "2" for "20"."""
    file = Path("/proc/sys/vm/dirty_background_ratio")
    script = changed(SCRIPT, ("\nfor f in proc/cmdline ", "\nreturn\nfor f in proc/cmdline "))
    assert script != SCRIPT
    answer = captured(shell, script=script)[ReadFile(str(file))]
    assert answer == Known(file.read_text(), str(file))


@one_run
def test_every_answer_is_recorded_once() -> None:
    """The reader rejects a manifest with a repeated ask."""
    keys = ("ask", "path", "argv", "device_number", "offset_bytes", "length_bytes", "reading")
    asked = Counter(
        str([entry.get(key) for key in keys]) for entry in entries(collected_once("sh"))
    )
    assert [ask for ask, count in asked.items() if count > 1] == []


@one_run
def test_the_manifest_names_its_maker_and_host() -> None:
    """Tool, host and time are in the fields of the format."""
    top = json.loads(manifest(collected_once("sh")).decode("utf-8", "surrogateescape"))
    del top["answers"]
    version = SCRIPT.splitlines()[1].split()[2].rstrip(":")
    assert top.pop("taken_at").endswith("Z")
    assert top == {
        "format": "ext4audit-snapshot",
        "version": 1,
        "host": os.uname().nodename,
        "tool": f"collect.sh {version}",
    }


@one_run
def test_text_is_base64_of_76_columns_between_marker_lines() -> None:
    """`--text` prints only the markers and lines that every channel carries."""
    lines = collected_once("sh", "--lean", "--text").stdout.decode("ascii").split("\n")
    assert (lines[0], lines[-2], lines[-1]) == (BEGIN, END, "")
    assert {len(line) for line in lines[1:-3]} == {76}


@one_run
@some_shells
def test_text_survives_a_terminal_and_the_noise_of_a_login(shell: str) -> None:
    """CR LF, a message before and a prompt after change nothing."""
    noise = b"Last login: Fri\r\n\x1b[1mwelcome\x1b[0m\r\n"
    sent = collected_once(shell, "--lean", "--text").stdout.replace(b"\n", b"\r\n")
    raw = unwrap(noise + sent + b"root@host:~# logout\r\n")
    assert Uname() in manifest_answers(gzip.decompress(raw))


@one_run
def test_lean_fits_what_a_cloud_returns_of_standard_output() -> None:
    """`--lean --text` stays below the limit, without udev and group descriptors.

    Loop devices of concurrent tests are not counted; there may be dozens.
    """
    sent = collected_once("sh", "--lean", "--text").stdout
    lines = gzip.decompress(unwrap(sent)).splitlines()
    ours = [line for line in lines if not OF_A_LOOP.match(line)]
    assert len(base64.encodebytes(gzip.compress(b"\n".join(ours)))) < LARGEST_LEAN_BYTES
    answers = answers_of_lean_text("sh")
    assert not any(isinstance(ask, UdevDatabase) for ask in answers)
    assert {ask.length_bytes for ask in answers if isinstance(ask, ReadBytes)} <= {1024}


def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """`-o FILE` holds fstab and the kernel's command line: both can hold passwords."""
    target = tmp_path / "out put"
    done = collect("sh", "-o", str(target), script=SCRIPT_WITHOUT_WAIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_bytes().startswith(b"\x1f\x8b")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """The exit status is not 0, and nothing is left behind."""
    done = collect("sh", "-o", str(tmp_path / "no" / "file"), environment={"TMPDIR": str(tmp_path)})
    assert done.returncode != 0
    assert b"/no/file" in done.stderr
    assert leftovers(tmp_path) == []


@some_shells
@pytest.mark.parametrize("arguments", [("--help",), ("-o",), ("--text", "x")])
def test_unknown_options_are_refused(shell: str, arguments: tuple[str, ...]) -> None:
    """The exit status is 2, the usage is shown, and standard output is empty."""
    done = collect(shell, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"usage: sh collect.sh [--text] [--lean] [-o FILE]\n"


def test_no_snapshot_goes_to_a_terminal(tmp_path: Path) -> None:
    """Compressed bytes would leave the terminal in an odd state."""
    kept = tmp_path / "collect.sh"
    kept.write_text(SCRIPT)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        ["sh", kept], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert done.stderr == b"collect.sh: not to a terminal: use a pipe, -o FILE or --text\n"


@some_shells
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(shell: str, number: signal.Signals, tmp_path: Path) -> None:
    """Neither its directory nor the running command stays; the exit status is not 0."""
    if shutil.which(shell.partition(" ")[0]) is None:
        pytest.skip(f"needs {shell}")
    kept = tmp_path / "collect.sh"
    kept.write_text(changed(SCRIPT, ("\nlong /proc/self/mountinfo\n", f"\nrun tail -f {kept}\n")))
    place, output = tmp_path / "tmp", tmp_path / "output"
    place.mkdir()
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            [*shell.split(), kept],
            env={**os.environ, "TMPDIR": str(place)},
            stdout=stdout,
            stderr=subprocess.DEVNULL,
        )
    assert wait_until(lambda: is_running(f"tail -f {kept}"))
    assert (status_after(process, number), output.read_bytes()) == (1, b"")
    assert leftovers(place) == []
    assert wait_until(lambda: not is_running(f"tail -f {kept}"))


@some_shells
def test_closed_pipe_leaves_no_files(shell: str, tmp_path: Path) -> None:
    """`… | head -c 1` ends the script early, and the script cleans up."""
    kept = tmp_path / "collect.sh"
    kept.write_text(SCRIPT)
    place = tmp_path / "tmp"
    place.mkdir()
    command = f"{shell} {kept} --text | head -c 1"
    environment = {**os.environ, "TMPDIR": str(place)}
    subprocess.run(["sh", "-c", command], env=environment, check=True, capture_output=True)
    assert wait_until(lambda: leftovers(place) == [])


@some_shells
def test_nothing_holds_the_output_when_the_script_has_ended(shell: str) -> None:
    """`ssh HOST sh -s` waits for the last writer: the `sleep 1` of a time limit must not be one.

    In this test such a `sleep` would last for minutes.
    """
    one_command = changed(SCRIPT, ("\nlong /proc/self/mountinfo\n", "\nrun true\nreturn\n"))
    script = with_seconds(one_command, str(HANG_SECONDS))
    command = [*shell.split(), "-s", "--", "--text"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(script.encode())
        process.stdin.close()
        with assert_no_waiting():
            assert process.stdout.read().endswith(b"-----\n")


IMPATIENT = with_one_second_limit(
    changed(
        SCRIPT,
        (
            "\nrun systemd-detect-virt ",
            "\nrun sleep 1000\nrun no-such-tool;run systemd-detect-virt ",
        ),
    ),
    "run sleep 1000",
)
"""The script with a hanging tool, which has a short time limit, and a missing one."""


@functools.cache
def runs_of_the_impatient(shell: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the captured command runs by program, and the files left behind."""
    with TemporaryDirectory() as place:
        found = entries(collect(shell, script=IMPATIENT, environment={"TMPDIR": place}))
        left = leftovers(Path(place))
    return {entry["argv"][0]: entry for entry in found if "argv" in entry}, left


@one_run
@some_shells
def test_nothing_is_left_after_success(shell: str) -> None:
    """The temporary directory is removed."""
    assert runs_of_the_impatient(shell)[1] == []


@one_run
@some_shells
def test_a_hung_command_is_recorded_and_the_rest_goes_on(shell: str) -> None:
    """The command is killed at its limit; it counts as timed out and not as a failure."""
    runs, _ = runs_of_the_impatient(shell)
    assert runs["sleep"]["timed_out"] is True
    assert runs["lsblk"]["timed_out"] is False


@one_run
@some_shells
def test_a_tool_that_is_missing_is_recorded(shell: str) -> None:
    """The exit status is the shell's 127, and the next tool runs all the same."""
    runs, _ = runs_of_the_impatient(shell)
    assert (runs["no-such-tool"]["status"], runs["no-such-tool"]["stdout"]) == (127, "")
    assert "not found" in runs["no-such-tool"]["stderr"]
    assert runs["lsblk"]["status"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@some_shells
def test_run_without_root(shell: str) -> None:
    """Run as nobody, the script succeeds and reports the refused answers."""
    answers = manifest_answers(manifest(collect(shell, wrapper=NOBODY)))
    assert answers[EffectiveUser()] == Known("65534", "effective user")
    assert isinstance(answers[ReadFile("/proc/self/mountinfo")], Known)


def test_a_read_only_tmp_is_no_obstacle(tmp_path: Path) -> None:
    """After an error / is read-only and a snapshot is needed: /run is used instead."""
    manifest(
        collect("sh", script=SCRIPT_WITHOUT_WAIT, environment={"TMPDIR": str(tmp_path / "missing")})
    )


@some_shells
def test_error_without_a_writable_directory(shell: str) -> None:
    """Exit status 1 without a message is not enough: a pipe's reader would see an empty file."""
    script = SCRIPT_WITHOUT_WAIT.replace("/run /dev/shm;", "/proc/nonexistent;")
    done = collect(shell, script=script, environment={"TMPDIR": "/proc"})
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"collect.sh: no writable TMPDIR\n"


@pytest.mark.parametrize("tool", ["gzip", "base64"])
def test_the_script_names_tools_that_may_be_missing(tool: str) -> None:
    """Without gzip the manifest is sent uncompressed, and without base64 openssl replaces it."""
    script = SCRIPT_WITHOUT_WAIT.replace(f"\n{tool} ", f"\nno-{tool} ")
    assert script != SCRIPT_WITHOUT_WAIT
    done = collect("sh", *(("--text",) if tool == "base64" else ()), script=script)
    if tool == "gzip":
        assert Uname() in manifest_answers(done.stdout)
    elif shutil.which("openssl"):
        assert Uname() in manifest_answers(gzip.decompress(unwrap(done.stdout)))


def without(tool: str, directory: Path) -> str:
    """Return the script with a PATH that has every tool of this machine but one."""
    directory.mkdir()
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name != tool and not (directory / program.name).is_symlink():
                (directory / program.name).symlink_to(program)
    return re.sub(r" PATH=\S+ ", f" PATH={directory} ", SCRIPT, count=1)


@some_shells
@pytest.mark.parametrize("tool", ["stat", "readlink"])
def test_paths_are_unknown_without_the_tool(shell: str, tool: str, tmp_path: Path) -> None:
    """Such paths are unknown: neither absent, like fstrim.timer, nor resolved to ""."""
    if shell.startswith("busybox"):
        pytest.skip("busybox can have them itself")
    script = without(tool, tmp_path / "bin")
    done = collect(shell, "--lean", script=script)
    answers = manifest_answers(gzip.decompress(done.stdout))
    about_paths = [
        answer for ask, answer in answers.items() if isinstance(ask, (RealPath, ResolvePath))
    ]
    if tool == "stat":
        assert about_paths
        assert {
            (answer.why, answer.detail) for answer in about_paths if isinstance(answer, Unknown)
        } <= {
            (Why.FAILED, "no tool"),
            (Why.FAILED, "command not found"),
        }
    assert [answer for answer in about_paths if isinstance(answer, Known)] == []


@some_shells
def test_escapes_of_fstab_are_read_as_mount_reads_them(shell: str, tmp_path: Path) -> None:
    r"""A backslash before anything but three octal digits is itself: udev writes `\x20`."""
    specs = (r"my\x20disk", r"a\040b", r"back\134slash", r"c\134040d", r"e\9f", r"g\04h", "i\\")
    table = tmp_path / "table"
    table.write_text("".join(f"{tmp_path}/{spec} {tmp_path} ext4 ro 0 0\n" for spec in specs))
    wanted = {f"{tmp_path}/{decode_octal(spec)}" for spec in specs}
    for path in wanted:
        Path(path).touch()
    answers = captured(shell, "--lean", script=SCRIPT.replace("/etc/fstab", str(table)))
    found = {ask.path for ask in answers if isinstance(ask, ResolvePath)}
    assert wanted - found == set()
    assert {path: need(answers[RealPath(path)]) for path in wanted} == {
        path: path for path in wanted
    }


def is_running(command: str) -> bool:
    """Return whether a process has this command line."""
    wanted = command.replace(" ", "\0").encode()
    return any(_command_line(process).startswith(wanted) for process in Path("/proc").iterdir())


def _command_line(process: Path) -> bytes:
    """Return a process's arguments, each ended by NUL, or nothing if it has ended."""
    with suppress(OSError):
        return (process / "cmdline").read_bytes()
    return b""


IMPLAUSIBLE = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: {}\nActive(file): 200 kB\n"
OLD_MEMINFO = 'mount --bind "$0" /proc/meminfo && exec "$@"'


@some_shells
@pytest.mark.kernel
@pytest.mark.parametrize("available", ["0 kB", "9000 kB"])
def test_implausible_memory_is_estimated(shell: str, available: str, tmp_path: Path) -> None:
    """The estimate is that of the live source: the memory that the kernel lets become dirty."""
    table = tmp_path / "meminfo"
    table.write_text(IMPLAUSIBLE.format(available))
    wrapper = ("unshare", "-m", "sh", "-c", OLD_MEMINFO, str(table))
    answers = manifest_answers(
        manifest(collect(shell, script=SCRIPT_WITHOUT_WAIT, wrapper=wrapper))
    )
    assert need(answers[VirtualMemory()]) == f"{1000 * 1024}\n{300 * 1024}"
