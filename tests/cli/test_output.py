"""`-f` and `-o` in pairs: one audit writes several reports."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

from ext4audit.cli import OutputFailed, run_program
from ext4audit.cli.output import FORMATS, Output, outputs_of, write, writing
from support.hosts.fixture_hosts import HOSTS
from support.program import environment, run, run_as_nobody, run_python
from support.timing import PATIENCE_SECONDS

FINISHED = {0, 1, 3}


def permission_bits(path: Path) -> int:
    """Return the permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_report_to_a_new_file(tmp_path: Path) -> None:
    """Everyone may read it, no other file is left, and nothing is printed."""
    path = tmp_path / "out.json"
    done = run("scan", "-f", "json", "-o", str(path))
    assert done.returncode in FINISHED
    assert done.stdout == ""
    assert path.read_text(encoding="utf-8").startswith('{\n  "schema_version": "1.')
    assert permission_bits(path) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_text_report_in_a_file_has_no_colours(tmp_path: Path) -> None:
    """A named file has no colours, whatever the environment forces."""
    path = tmp_path / "out.txt"
    done = run("scan", "-o", str(path), env={"FORCE_COLOR": "1"})
    assert done.returncode in FINISHED
    assert "\x1b" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o666])
def test_existing_file_keeps_its_mode(tmp_path: Path, bits: int) -> None:
    """A private report stays private; its old content is gone."""
    path = tmp_path / "out"
    path.write_text("old and long\n" * 1000)
    path.chmod(bits)
    write("new\n", str(path))
    assert path.read_text() == "new\n"
    assert permission_bits(path) == bits


def test_report_file_is_replaced_atomically(tmp_path: Path) -> None:
    """The file is replaced: readers that have the old file open still read all of it."""
    path = tmp_path / "out"
    path.write_text("old\n")
    with path.open() as reader:
        write("new\n", str(path))
        assert reader.read() == "old\n"
    assert path.read_text() == "new\n"


def test_report_that_does_not_fit_keeps_the_old_file(tmp_path: Path) -> None:
    """The error is one line; only the old file exists."""
    path = tmp_path / "out"
    path.write_text("old\n")
    done = run(
        *("scan", "-f", "json", "-o", str(path)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
    )
    assert done.returncode == 70
    assert done.stderr == f"ext4audit: cannot write to {path}: File too large\n"
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EMFILE, "Too many open files"),
        (errno.ENFILE, "Too many open files in system"),
        (errno.ENOSPC, "cannot write to standard output: No space left on device"),
    ],
)
def test_too_few_open_files_is_a_clear_error(number: int, message: str) -> None:
    """The hosts of a fleet are audited while their lines are written."""
    with pytest.raises(OutputFailed) as failed, writing(None):
        raise OSError(number, os.strerror(number))
    assert str(failed.value) == message


RUN_OUT = """
from ext4audit import __main__, cli
def run_out(*_):
    raise {error}
cli._run = run_out
{more}
__main__.main()
"""


@pytest.mark.parametrize(
    "more", ["", "cli.print_diagnostic = run_out", "cli.run_program = run_out"]
)
@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("MemoryError", "out of memory"),
        ("MemoryError('interning')", "out of memory"),
        ("OSError(24, 'Too many open files')", "Too many open files"),
        ("OSError(23, 'Too many open files in system')", "Too many open files in system"),
    ],
)
def test_used_up_resource_is_a_one_line_error(error: str, message: str, more: str) -> None:
    """It is no internal error to report, also where nothing more can be imported."""
    done = run_python("-c", RUN_OUT.format(error=error, more=more))
    assert (done.returncode, done.stderr) == (70, f"ext4audit: {message}\n")


@pytest.mark.parametrize("count", range(5, 14))
def test_few_open_files_print_no_traceback(count: int) -> None:
    """A scan needs nine of them; without them, it ends before it has a report."""
    done = run(
        *("scan", "-q"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)),
    )
    if done.returncode == 70:
        assert (done.stdout, done.stderr) == ("", "ext4audit: Too many open files\n")
    else:
        assert (done.returncode, done.stderr) in {(0, ""), (1, ""), (3, "")}


def test_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    """The link's target is replaced: `-o /dev/stdout` once could replace the device."""
    real, link = tmp_path / "elsewhere" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_text("old\n")
    link.symlink_to(real)
    write("new\n", str(link))
    assert link.is_symlink()
    assert real.read_text() == "new\n"
    assert list(real.parent.iterdir()) == [real]


def test_dangling_link_creates_its_target(tmp_path: Path) -> None:
    """The link's target is created."""
    link = tmp_path / "link"
    link.symlink_to("new")
    write("new\n", str(link))
    assert link.is_symlink()
    assert (tmp_path / "new").read_text() == "new\n"


def test_link_to_standard_output(tmp_path: Path) -> None:
    """A link into /proc/self/fd is followed to the pipe."""
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    done = run("scan", "-q", "-o", str(link))
    assert done.returncode in FINISHED
    assert " filesystem" in done.stdout
    assert link.is_symlink()


def test_report_to_the_null_device() -> None:
    """A device is written to, and stays a device."""
    done = run("scan", "-o", "/dev/null")
    assert done.returncode in FINISHED
    assert done.stderr == ""
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_full_device_is_a_one_line_error() -> None:
    """The exit code is neither that of findings nor a crash."""
    done = run("scan", "-o", "/dev/full")
    assert done.returncode == 70
    assert done.stderr == "ext4audit: cannot write to /dev/full: No space left on device\n"


def error_for_destination(path: str) -> str:
    """Scan into an impossible destination, and return the error message."""
    done = run("scan", "-o", path)
    return usage_error_line(done)


def usage_error_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of a usage error."""
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr.splitlines()[0]


def test_directory_is_refused(tmp_path: Path) -> None:
    """Unwritable destinations are refused before the audit."""
    assert error_for_destination(str(tmp_path)) == f"ext4audit: --output {tmp_path}: is a directory"
    assert error_for_destination("") == "ext4audit: --output : is empty"


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    """The directory is named."""
    path = tmp_path / "missing" / "out"
    assert (
        error_for_destination(str(path))
        == f"ext4audit: --output {path}: {path.parent}: no such directory"
    )
    folder = f"{path.parent}/"  # the slash means a directory, not a file of that name
    assert error_for_destination(folder) == f"ext4audit: --output {folder}: no such directory"


@pytest.mark.parametrize("name", ["a/b", "x" * 300])
def test_invalid_path_is_refused(tmp_path: Path, name: str) -> None:
    """A file instead of a directory, or a name that is too long, does not crash."""
    (tmp_path / "a").write_text("")
    assert error_for_destination(str(tmp_path / name)).startswith(f"ext4audit: --output {tmp_path}")


def test_invalid_destination_stops_before_the_audit(tmp_path: Path) -> None:
    """The destination is checked before the targets."""
    done = run("scan", "-o", str(tmp_path), str(tmp_path / "no-such-target"))
    assert "is a directory" in usage_error_line(done)


def test_unwritable_directory_is_refused() -> None:
    """This includes existing files, because a new one must be created beside them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        existing = folder / "existing"
        existing.touch()
        existing.chmod(0o666)
        closed = folder / "closed"
        closed.mkdir(0o700)
        assert "not writable" in usage_error_line(run_as_nobody("scan", "-o", str(existing)))
        assert "not writable" in usage_error_line(run_as_nobody("scan", "-o", str(folder / "new")))
        assert "Permission denied" in usage_error_line(
            run_as_nobody("scan", "-o", str(closed / "new"))
        )


def test_report_to_a_named_pipe(tmp_path: Path) -> None:
    """It stays a pipe; a reader that stops early is not an output failure."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = subprocess.Popen(["head", "-c1", str(path)], stdout=subprocess.PIPE, text=True)
    with pytest.raises(BrokenPipeError):
        write("x" * (1 << 20), str(path))
    assert reader.communicate(timeout=PATIENCE_SECONDS)[0] == "x"
    assert path.is_fifo()


def test_write_error_names_path_and_reason(tmp_path: Path) -> None:
    """The message is for the user, and includes the system's reason."""
    path = tmp_path / "missing" / "out"
    with pytest.raises(OutputFailed, match=f"cannot write to {path}: No such file or directory"):
        write("x", str(path))


def test_new_report_respects_the_umask(tmp_path: Path) -> None:
    """A report reveals fstab, so a private umask keeps it private."""
    report = tmp_path / "report"
    old = os.umask(0o077)
    try:
        run("scan", "-q", "-o", str(report))
    finally:
        os.umask(old)
    assert report.stat().st_mode & 0o777 == 0o600


def test_report_written_in_pieces_is_atomic(tmp_path: Path) -> None:
    """A reader never sees only some lines, and after a failure sees the former file."""
    path = tmp_path / "out"
    path.write_text("old")
    with writing(str(path)) as put:
        put("one\n")
        assert path.read_text() == "old"
        put("two\n")
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(ZeroDivisionError), writing(str(path)) as put:
        put(f"three {1 / 0}\n")
    assert path.read_text() == "one\ntwo\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", [("scan", "-q"), ("collect", "--script")])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_dev_stdout_appends_to_its_file(
    tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    """`-o /dev/stdout >> log` keeps what the log contains, and later output is appended."""
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as stream:
        done = run(*command, "-o", name, stdout=stream)
        stream.write("after\n")
    assert done.returncode in FINISHED
    text = log.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count("\n") > 2
    assert list(tmp_path.iterdir()) == [log]


def test_closed_stream_is_refused() -> None:
    """It is refused before the audit."""
    assert error_for_destination("/dev/fd/77") == "ext4audit: --output /dev/fd/77: not writable"


def test_removed_working_directory_is_refused(tmp_path: Path) -> None:
    """A relative path is then invalid, which must not crash."""
    folder = tmp_path / "gone"
    folder.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd());"
    script += "from ext4audit.cli import run_program; sys.exit(run_program(sys.argv[1:]))"
    done = run_python("-c", script, "scan", "-o", "report", cwd=folder)
    assert usage_error_line(done) == "ext4audit: --output report: No such file or directory"


NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")


@pytest.mark.parametrize(
    ("formats", "files", "outputs"),
    [
        ((), (), [("text", None)]),
        ((), ("a",), [("text", "a")]),
        ((), ("-",), [("text", None)]),
        (("json",), (), [("json", None)]),
        (("json",), ("a",), [("json", "a")]),
        (("json", "text"), ("a", "-"), [("json", "a"), ("text", None)]),
        (("text", "json"), ("-", "a"), [("text", None), ("json", "a")]),
        (("json", "json"), ("a", "b"), [("json", "a"), ("json", "b")]),
    ],
)
def test_formats_and_outputs_are_paired_in_order(
    formats: tuple[str, ...], files: tuple[str, ...], outputs: list[tuple[str, str | None]]
) -> None:
    """A single format defaults to standard output; each of several needs an output."""
    assert outputs_of(formats, files) == tuple(Output(*each) for each in outputs)


@pytest.mark.parametrize(
    ("formats", "outputs", "words"),
    [
        ((), ("a", "b"), "--format is given never and --output twice"),
        (("json",), ("a", "b"), "--format is given once and --output twice"),
        (("json", "text"), (), "--format is given twice and --output never"),
        (("text", "json"), ("a",), "each needs its --output (- for standard output)"),
        (("text", "json", "csv"), ("a", "b"), "--format is given 3 times and --output twice"),
        (("text", "json"), ("-", "-"), "two formats are written to the same --output"),
        (("text", "json"), ("a", "a"), "two formats are written to the same --output"),
        (("text", "json"), ("a", "./a"), "two formats are written to the same --output"),
        (("text", "json"), ("-", "/dev/stdout"), "two formats are written to the same --output"),
        (("text", "json"), ("/dev/fd/1", "-"), "two formats are written to the same --output"),
    ],
)
def test_ambiguous_outputs_are_refused(
    formats: tuple[str, ...], outputs: tuple[str, ...], words: str
) -> None:
    """In "-f text -f json -o FILE" it is ambiguous whether FILE is for JSON or for text."""
    with pytest.raises(click.UsageError) as raised:
        outputs_of(formats, outputs)
    assert words in raised.value.message


@pytest.mark.parametrize("first", ["-", "/dev/stdout"])
def test_file_behind_standard_output_is_the_same_destination(first: str, tmp_path: Path) -> None:
    """One format replaced the file, and the other's output was lost."""
    words = ["scan", "--from", str(NOBARRIER), "-f", "text", "-o", first, "-f", "json", "-o", "out"]
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-m", "ext4audit", *words],
            cwd=tmp_path,
            env=environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 2
    assert "two formats are written to the same --output" in done.stderr


@pytest.mark.parametrize("sources", [[NOBARRIER], [NOBARRIER, HEALTHY]])
def test_one_audit_writes_every_file(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For one and many hosts, each format has its file, and the last uses standard output."""
    formats = [fmt for fmt in FORMATS if fmt not in {"json", "text"}]
    words = [f"--from={source}" for source in sources]
    for fmt in formats:
        words += ["-f", fmt, "-o", str(tmp_path / fmt)]
    assert run_program(["scan", *words, "-f", "text", "-o", "-"]) == 1
    assert "host" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == set(formats)
    lines = (tmp_path / "ndjson").read_text().splitlines()
    assert len(lines) == len(sources)
    for fmt in formats:
        assert "DUR001" in (tmp_path / fmt).read_text(), fmt


def test_every_file_is_of_the_same_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host is read once, so two files cannot differ."""
    one, two = tmp_path / "one", tmp_path / "two"
    words = ["-f", "json", "-o", str(one), "-f", "ndjson", "-o", str(two)]
    assert run_program(["scan", "--from", NOBARRIER, *words]) == 1
    assert json.loads(one.read_text()) == json.loads(two.read_text())
    assert capsys.readouterr().out == ""


def test_unwritable_output_stops_before_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other file is not written either."""
    words = ["-f", "json", "-o", str(tmp_path / "a"), "-f", "csv", "-o", str(tmp_path / "b" / "c")]
    assert run_program(["scan", "--from", NOBARRIER, *words]) == 2
    assert "no such directory" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("first", ["nagios", "csv"])
def test_first_format_decides_the_exit_code(first: str, tmp_path: Path) -> None:
    """Nagios runs a plugin, which names that format first."""
    second = "csv" if first == "nagios" else "nagios"
    words = ["-f", first, "-o", "-", "-f", second, "-o", str(tmp_path / "other")]
    assert run_program(["scan", "--from", NOBARRIER, *words]) == (2 if first == "nagios" else 1)


def test_json_of_many_hosts_is_ndjson(capsys: pytest.CaptureFixture[str]) -> None:
    """A fleet's JSON is NDJSON, even if JSON is one of several formats."""
    words = ["-f", "json", "-o", "/dev/null", "-f", "text", "-o", "-"]
    assert run_program(["scan", f"--from={NOBARRIER}", f"--from={HEALTHY}", *words]) == 2
    assert "use -f ndjson" in capsys.readouterr().err


@pytest.mark.parametrize("sources", [[NOBARRIER], [NOBARRIER, HEALTHY]])
def test_failed_output_does_not_affect_others(sources: list[str], tmp_path: Path) -> None:
    """A full disk is reported and ends in failure, but only after all files were written."""
    words = [f"--from={source}" for source in sources]
    words += ["-f", "csv", "-o", "/dev/full", "-f", "sarif", "-o", str(tmp_path / "sarif")]
    done = run("scan", *words)
    assert done.returncode == 70
    assert "cannot write to /dev/full" in done.stderr
    assert "DUR001" in (tmp_path / "sarif").read_text()


def test_plugin_with_a_failed_output_is_unknown() -> None:
    """To Nagios, 70 is CRITICAL; the line that was written before stays the only one."""
    words = ["-f", "nagios", "-o", "-", "-f", "csv", "-o", "/dev/full"]
    done = run("scan", f"--from={HEALTHY}", *words)
    assert done.returncode == 3
    assert done.stdout.count("EXT4AUDIT ") == 1
    assert "cannot write to /dev/full" in done.stderr


@pytest.mark.parametrize("sources", [[NOBARRIER], [NOBARRIER, HEALTHY]])
@pytest.mark.parametrize(("place", "code"), [("/dev/full", 70), ("closed pipe", 141)])
def test_failed_standard_output_does_not_affect_files(
    sources: list[str], place: str, code: int, tmp_path: Path
) -> None:
    """`-f text -o - -f json -o FILE | head` leaves FILE complete, for one and many hosts."""
    words = [f"--from={source}" for source in sources]
    words += ["-f", "text", "-o", "-", "-f", "ndjson", "-o", str(tmp_path / "ndjson")]
    words += ["-f", "csv", "-o", str(tmp_path / "csv")]
    if place == "/dev/full":
        stream = os.open(place, os.O_WRONLY)
    else:
        reader, stream = os.pipe()
        os.close(reader)
    done = run("scan", *words, stdout=stream)
    os.close(stream)
    assert done.returncode == code
    assert len((tmp_path / "ndjson").read_text().splitlines()) == len(sources)
    assert "DUR001" in (tmp_path / "csv").read_text()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of other users")


@needs_root
def test_file_keeps_its_owner(tmp_path: Path) -> None:
    """Another user's file keeps its owner; it once became root's."""
    path = tmp_path / "out"
    path.write_text("old\n")
    os.chown(path, 12345, 54321)
    path.chmod(0o640)
    write("new\n", str(path))
    status = path.stat()
    assert path.read_text() == "new\n"
    assert (status.st_uid, status.st_gid, permission_bits(path)) == (12345, 54321, 0o640)


@needs_root
def test_file_of_another_user_is_not_replaced() -> None:
    """Users who cannot keep the owner are refused, even in a world-writable directory."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        existing = Path(name) / "existing"
        existing.touch()
        existing.chmod(0o666)
        assert usage_error_line(run_as_nobody("scan", "-o", str(existing))).endswith(
            ": belongs to another user"
        )
        assert existing.stat().st_uid == 0


@needs_root
@pytest.mark.parametrize("command", ["scan", "collect"])
def test_link_of_another_user_is_not_followed(command: str, tmp_path: Path) -> None:
    """In another user's directory a link would choose the file that root overwrites."""
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("precious\n")
    link.symlink_to(victim)
    os.lchown(link, 12345, 12345)
    done = run(command, "-o", str(link))
    assert usage_error_line(done).endswith(": is a symbolic link of another user")
    assert victim.read_text() == "precious\n"


@needs_root
def test_snapshot_to_another_users_file_is_refused(tmp_path: Path) -> None:
    """Its owner could read what only root may capture."""
    path = tmp_path / "out"
    path.touch()
    os.chown(path, 12345, 54321)
    done = run("collect", "-o", str(path))
    assert usage_error_line(done).endswith(": belongs to another user, who could read the snapshot")
    assert path.read_bytes() == b""
