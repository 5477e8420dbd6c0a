"""Every way to end the program has its exit code, and only findings give 1."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.renderers import formats
from support.program import environment, run, run_python
from support.timing import PATIENCE_SECONDS

COMMANDS = [
    ["--version"],
    ["--help"],
    ["scan", "--help"],
    ["scan"],
    ["scan", "-f", "json"],
    ["rules"],
    ["explain", "LAY001"],
    ["schema"],
]

USAGE_ERRORS = [
    (["scna"], "ext4audit: no such command: scna (did you mean scan?)"),
    (["\x1b[31m\n"], r"ext4audit: no such command: \x1b[31m\x0a"),
    (["-x"], "ext4audit: no such option: -x"),
    (
        ["scan", "--formatt", "json"],
        "ext4audit: no such option: --formatt (did you mean --format?)",
    ),
    (["scan", "-f", "xml"], f"--format: invalid value 'xml' (choose from {', '.join(formats())})"),
    (["scan", "--color", "sometimes"], "ext4audit: --color: invalid value 'sometimes'"),
    (["scan", "--fail-on", "worst"], "ext4audit: --fail-on: invalid value 'worst'"),
    (["scan", "--select", "LAY0001"], "ext4audit: unknown rule 'LAY0001' (did you mean LAY001?)"),
    (["scan", "--ignore", "DUR,"], "ext4audit: unknown rule ''"),
    (["scan", "--select", "\x1b\udcff"], r"ext4audit: unknown rule '\x1b\udcff'"),
    (["scan", "--timeout", "0"], "ext4audit: --timeout: 0 is not a number above 0"),
    (["scan", "--timeout", "-1"], "ext4audit: --timeout: -1 is not a number"),
    (["scan", "--timeout", "nan"], "ext4audit: --timeout: nan is not a number"),
    (["scan", "--timeout", "inf"], "ext4audit: --timeout: inf is not a number"),
    (["scan", "--timeout", "1e300"], "ext4audit: --timeout: 1e300 is not a number"),
    (["scan", "--timeout", "soon"], "ext4audit: --timeout: soon is not a number"),
    (["scan", "-v", "-q"], "ext4audit: --verbose and --quiet exclude each other"),
    (["scan", "--output"], "ext4audit: --output takes a value"),
    (["rules", "DUR"], "ext4audit: got unexpected extra argument (DUR)"),
    (["explain"], "ext4audit: CODE|NAME|FAMILY is missing"),
    (["explain", "LAY999"], "ext4audit: unknown rule 'LAY999' (did you mean "),
    (["explain", "striped-metadata-hotspto"], "(did you mean striped-metadata-hotspot?)"),
    (["explain", "\x1b]0;x\x07"], r"ext4audit: unknown rule '\x1b]0;x\x07'"),
]


@pytest.mark.parametrize(("arguments", "reported"), USAGE_ERRORS, ids=lambda case: ascii(case)[:40])
def test_usage_error_is_one_line_and_exit_2(arguments: list[str], reported: str) -> None:
    """The first line states the mistake, the second a remedy; standard output is empty."""
    done = run(*arguments)
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(lines) == 2
    assert reported in lines[0]
    assert lines[1].startswith("Try 'ext4audit")
    assert lines[1].endswith(" --help' for help.")
    assert "\x1b" not in done.stderr


def test_no_arguments_is_a_usage_error() -> None:
    """A CI job that lost its command must not look clean; the help is on standard error."""
    done = run()
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Usage: ext4audit ")
    assert "\n  scan " in done.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    """Without a reader the program ends quietly, as after SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


def test_output_piped_to_head_ends_quietly() -> None:
    """`ext4audit schema | head -c1` reads one byte, and the program ends without a traceback."""
    script = '"$0" -m ext4audit schema | head -c1; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout in {"{0\n", "{141\n"}
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["rules"], ["schema"], ["scan", "-f", "json"]], ids=" ".join)
def test_full_device_is_a_one_line_error(arguments: list[str]) -> None:
    """A failure to print is an internal error, not a verdict."""
    with Path("/dev/full").open("w") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 70
    assert done.stderr == "ext4audit: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("arguments", [["scna"], ["scan", "/proc"], []], ids=" ".join)
@pytest.mark.parametrize("broken", ["full", "closed pipe", "closed"])
def test_broken_standard_error_keeps_the_exit_code(arguments: list[str], broken: str) -> None:
    """If the mistake cannot be printed, the exit code is still 2."""
    redirections = {"full": "2>/dev/full", "closed pipe": "2> >(exit)", "closed": "2>&-"}
    waiting = "sleep 0.2; " if broken == "closed pipe" else ""
    script = f'exec {redirections[broken]}; {waiting}"$0" -m ext4audit "$@"'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == b""


def test_closed_standard_output_does_not_crash(tmp_path: Path) -> None:
    """Without standard output the report is still written to its file."""
    script = '"$0" -m ext4audit scan -q -o "$1" >&-'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, str(tmp_path / "out")],
        env=environment(),
        stderr=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode in {0, 1, 3}
    assert done.stderr == b""
    assert " filesystem" in (tmp_path / "out").read_text(encoding="utf-8")


def run_in_shell(words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with arguments and redirections of a shell, which can close streams."""
    return subprocess.run(
        ["bash", "-c", f'"$0" -m ext4audit {words}', sys.executable],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("words", ["schema", "rules -f json", "scan --mounts-of 1 -f json"])
def test_report_to_a_closed_stream_is_an_error(words: str) -> None:
    """As on a full disk, the report was lost although the exit code was 0."""
    done = run_in_shell(f"{words} >&-")
    assert done.returncode == 70
    assert done.stderr.startswith("ext4audit: cannot write to standard output: ")


INJECTED_SCRIPT = """
import signal, sys
import ext4audit.rules

def broken():
    {statement}

ext4audit.rules.all_rules = broken
from ext4audit.cli import run_program
sys.exit(run_program(["rules"]))
"""


def run_injected(statement: str) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit rules` with a statement in place of the catalogue."""
    return run_python("-c", INJECTED_SCRIPT.format(statement=statement))


@pytest.mark.parametrize(
    ("statement", "last"),
    [
        ("raise ValueError('a\\x1b[31m\\nb\\udcff')", "ext4audit: ValueError: a\\x1b[31m"),
        ("raise RecursionError('deep')", "ext4audit: RecursionError: deep"),
        ("raise BaseException('no Exception')", "ext4audit: BaseException: no Exception"),
        ("raise SystemExit(0)", "ext4audit: SystemExit: 0"),
        ("raise OSError(5, 'Input/output error')", "OSError: [Errno 5] Input/output error"),
    ],
)
def test_crash_is_exit_70_with_traceback(statement: str, last: str) -> None:
    """The traceback can be reported as is: each line has a prefix and no control characters."""
    done = run_injected(statement)
    assert done.returncode == 70
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "ext4audit: internal error; please report it with this text"
    assert lines[1] == "ext4audit: Traceback (most recent call last):"
    assert any(last in line for line in lines)
    assert all(line.startswith("ext4audit: ") for line in lines)
    assert "\x1b" not in done.stderr


def test_ctrl_c_is_exit_130() -> None:
    """An interrupted audit gives no verdict, and its traceback helps nobody."""
    done = run_injected("signal.raise_signal(signal.SIGINT)")
    assert done.returncode == 130
    assert done.stderr == "ext4audit: interrupted\n"


def test_ctrl_c_during_the_start_prints_no_traceback(tmp_path: Path) -> None:
    """Imports take most of a short run; a traceback would exit with 1, which means findings."""
    (tmp_path / "click.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    done = run("rules", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "ext4audit: interrupted\n"


def test_broken_installation_is_an_internal_error(tmp_path: Path) -> None:
    """An upgrade of Python leaves packages behind; the exit code used to be that of findings."""
    (tmp_path / "click.py").write_text("import no_such_package\n")
    done = run("rules", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 70
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_package'\n")


def test_full_unbuffered_output_is_an_internal_error(tmp_path: Path) -> None:
    """With PYTHONUNBUFFERED, the rest of a partial write was once lost, with a verdict's exit code.

    A file that may grow to one page simulates a disk that is almost full.
    """
    with (tmp_path / "out").open("wb") as file:
        done = run(
            "schema",
            env={"PYTHONUNBUFFERED": "1"},
            stdout=file,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        )
    assert (tmp_path / "out").stat().st_size == 4096
    assert done.returncode == 70
    assert done.stderr == "ext4audit: cannot write to standard output: File too large\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_large_output_through_a_pipe_is_complete(unbuffered: str) -> None:
    """A pipe holds 64 KiB, and its reader may be slow."""
    script = '"$0" -m ext4audit schema | { sleep 0.3; wc -c; }; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable],
        env=environment(PYTHONUNBUFFERED=unbuffered),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout.split() == [str(len(run("schema").stdout.encode())), "0"]


def test_opened_files_do_not_replace_closed_streams() -> None:
    """mke2fs found /dev/null instead of the file that was passed as descriptor 0."""
    script = "import os; from ext4audit.cli import run_program; run_program(['-V']); os.fstat(0)"
    closed = ["bash", "-c", '"$0" -c "$1" <&-', sys.executable, script]
    subprocess.run(closed, env=environment(), timeout=PATIENCE_SECONDS, check=True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("scan --from - <&-", "ext4audit: standard input: is closed"),
        ("collect >&-", "ext4audit: standard output is closed: use -o FILE"),
        ("collect --script >&-", "ext4audit: standard output is closed: use -o FILE"),
    ],
)
def test_closed_required_stream_is_a_usage_error(words: str, reason: str) -> None:
    """It neither crashes nor captures for nobody."""
    done = run_in_shell(words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == reason
