"""Where the shell collector writes its output, and that it leaves nothing else behind."""

from __future__ import annotations

import gzip
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGQUIT, SIGTERM
from tempfile import TemporaryDirectory

import pytest

from ext4audit.sources.snapshot import LARGEST_ANSWER_BYTES
from ext4audit.sources.snapshot import collector as module
from support.shells.collector import (
    NOBODY,
    SCRIPT,
    changed,
    collect,
    entries,
    leftovers,
    manifest,
    some_shells,
    status_after,
)
from support.timing import PATIENCE_SECONDS, wait_until

QUICK = re.sub(r"^capture$", ":", SCRIPT, flags=re.MULTILINE)
"""The script without its capture, which these tests do not check."""


def quick(shell: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script without its capture."""
    assert QUICK != SCRIPT
    return collect(shell, *options, script=QUICK)


@some_shells
@pytest.mark.parametrize("bits", [0o644, 0o666, 0o777])
def test_an_existing_file_is_closed_to_others(shell: str, bits: int, tmp_path: Path) -> None:
    """The new file has mode 0600, and a reader that had the old file open does not see it."""
    target = tmp_path / "out"
    target.write_text("old\n")
    target.chmod(bits)
    with target.open() as reader:
        done = quick(shell, "-o", str(target))
        assert reader.read() == "old\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_bytes().startswith(b"\x1f\x8b")
    assert leftovers(tmp_path) == ["out"]


@some_shells
@pytest.mark.parametrize("leads_to", ["file", "nothing", "directory"])
def test_no_link_is_followed(shell: str, leads_to: str, tmp_path: Path) -> None:
    """Otherwise another user's link in /tmp would let root overwrite any file."""
    victim, link = tmp_path / "victim", tmp_path / "link"
    if leads_to == "file":
        victim.write_text("precious\n")
    if leads_to == "directory":
        victim.mkdir()
    link.symlink_to(victim)
    done = quick(shell, "-o", str(link))
    assert done.returncode == 2
    assert done.stderr == f"collect.sh: {link}: not a regular file\n".encode()
    assert link.is_symlink()
    assert not victim.exists() or victim.is_dir() or victim.read_text() == "precious\n"
    assert set(leftovers(tmp_path)) <= {"link", "victim"}


@some_shells
def test_what_is_no_file_is_refused(shell: str, tmp_path: Path) -> None:
    """A directory, a pipe and a device are refused, since they are probably typing mistakes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, Path("/dev/null")):
        done = quick(shell, "-o", str(path))
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr == f"collect.sh: {path}: not a regular file\n".encode()
    assert leftovers(tmp_path) == ["pipe"]


@some_shells
@pytest.mark.parametrize("name", ["-x", "a b"])
def test_a_relative_name_is_one_of_the_working_directory(
    shell: str, name: str, tmp_path: Path
) -> None:
    """The name may look like an option or contain a blank."""
    script = tmp_path / "collect.sh"
    script.write_text(QUICK)
    place = tmp_path / "place"
    place.mkdir()
    subprocess.run(
        [*shell.split(), script, "-o", name], cwd=place, check=True, timeout=PATIENCE_SECONDS
    )
    assert leftovers(place) == [name]


@some_shells
@pytest.mark.parametrize("option", ["-f", "-euC"])
def test_options_of_the_shell_change_nothing(shell: str, option: str, tmp_path: Path) -> None:
    """`sh -e` must not end at the first tool that fails, nor leave its directory behind.

    -e, -u and -C only add ways to fail: what runs with all of them runs with each. -f turns off
    the expansion of file names.
    """
    script, place = tmp_path / "collect.sh", tmp_path / "tmp"
    script.write_text(changed(SCRIPT, ("run systemd-detect-virt", "run false")))
    place.mkdir()
    target = tmp_path / "out"
    done = subprocess.run(
        [*shell.split(), option, script, "--lean", "-o", target],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert target.read_bytes().startswith(b"\x1f\x8b")
    assert leftovers(place) == []


@pytest.mark.parametrize("options", ["-k", "-v", "-1"])
def test_options_of_gzip_in_the_environment_change_nothing(options: str) -> None:
    """With GZIP=-k gzip keeps the uncompressed file, which must not be sent as well."""
    manifest(collect("sh", script=QUICK, environment={"GZIP": options}))


@some_shells
@pytest.mark.parametrize(
    "change",
    [("exec 3>list;", ": >list&&exec 3>/dev/full;"), ("\ncapture\n", "\nulimit -f 0\ncapture\n")],
    ids=["full disk", "size of files"],
)
def test_an_answer_that_finds_no_room_ends_it(
    shell: str, change: tuple[str, str], tmp_path: Path
) -> None:
    """No partial answer is sent, and SIGXFSZ, sent at the size limit, leaves no directory."""
    environment = {"TMPDIR": str(tmp_path)}
    done = collect(shell, script=changed(SCRIPT, change), environment=environment)
    assert (done.returncode, done.stdout) == (1, b"")
    assert leftovers(tmp_path) == []


@some_shells
def test_a_program_that_never_ends_to_write_fills_no_disk(shell: str) -> None:
    """It is ended at the limit that a scan reads: in 20 seconds a program can write 39 GB."""
    limit = f"ulimit -f {LARGEST_ANSWER_BYTES // 512};"  # POSIX: in units of 512 bytes
    script = re.sub(r"^capture$", "run yes", SCRIPT, flags=re.MULTILINE)
    script = changed(script, (limit, "ulimit -f 8;"))
    (entry,) = entries(collect(shell, script=script))
    assert entry["status"] != 0
    assert len(entry["stdout"]) <= 8 * (1024 if shell == "bash" else 512)


@some_shells
def test_a_relative_place_for_files_is_removed_too(shell: str, tmp_path: Path) -> None:
    """The script changes its directory, so a relative name would not lead there any more."""
    (tmp_path / "place").mkdir()
    for name in ("place", "./place", "../" + tmp_path.name + "/place"):
        done = subprocess.run(
            [*shell.split(), "-s"],
            input=QUICK.encode(),
            env={**os.environ, "TMPDIR": name},
            cwd=tmp_path,
            capture_output=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.stdout.startswith(b"\x1f\x8b")
        assert leftovers(tmp_path / "place") == []


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Reset signals to their defaults: shells cannot trap those ignored at their start (POSIX sh).

    A shell without job control starts background jobs so, and the tests may be in one.
    """
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (SIGINT, SIGQUIT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@some_shells
@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGQUIT])
@pytest.mark.parametrize("option", ["", "-e"])
def test_a_signal_leaves_neither_directory_nor_file(
    shell: str, option: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The old file is unchanged; the new one, partly written beside it, is removed.

    The signal is sent while the shell sleeps until a command ends, and again until it ends.
    """
    script, place, target = tmp_path / "collect.sh", tmp_path / "tmp", tmp_path / "out"
    held = place / "held"
    hold = f"\nrun sh -c ': > {held}; exec sleep 300'\n"
    script.write_text(changed(SCRIPT, ("\nlong /proc/self/mountinfo\n", hold)))
    place.mkdir()
    target.write_text("old\n")
    with subprocess.Popen(
        [*shell.split(), *option.split(), script, "-o", target],
        env={**os.environ, "TMPDIR": str(place)},
        stderr=subprocess.DEVNULL,
    ) as process:
        assert wait_until(held.exists)
        assert status_after(process, number) == 1
    assert leftovers(place) == ["held"]
    assert leftovers(tmp_path) == ["collect.sh", "out", "tmp"]
    assert target.read_text() == "old\n"


@some_shells
@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_a_second_signal_leaves_nothing_either(
    shell: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Pressing Ctrl-C again during the cleanup must not stop the cleanup."""
    script, place, tidies = tmp_path / "collect.sh", tmp_path / "tmp", tmp_path / "tidies"
    slow = f';: >{tidies};sleep 1;rm -rf "$T" '
    hold = ("\nlong /proc/self/mountinfo\n", "\nrun sleep 300\n")
    script.write_text(changed(SCRIPT, hold, (';rm -rf "$T" ', slow)))
    place.mkdir()
    with subprocess.Popen(
        [*shell.split(), script],
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:

        def is_tidying() -> bool:
            process.send_signal(number)
            return tidies.exists()

        assert wait_until(lambda: leftovers(place) != [])
        assert wait_until(is_tidying, 0.3)
        process.send_signal(number)
    assert process.returncode == 1
    assert leftovers(place) == []


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A snapshot that does not fit is an error, and no partial snapshot is left."""
    target = tmp_path / "out"
    target.write_text("old\n")
    script = QUICK.replace("cat json*", "cat json* >/dev/full")
    assert script != QUICK
    done = collect("sh", "-o", str(target), script=script)
    assert done.returncode == 1
    assert target.read_text() == "old\n"
    assert leftovers(tmp_path) == ["out"]


def test_no_short_name_means_two_variables() -> None:
    """Each short name is unique, and the unshortened script assigns none of them."""
    source = Path(module.__file__).with_name("collect.sh").read_text()
    short = list(module._VARIABLES.values())
    assert len(set(short)) == len(short)
    assigned = set(re.findall(r"(?<![\w'\"%])([A-Z]+)=", source))
    assert "T" in assigned
    assert not assigned & set(short)


def test_every_use_of_a_shortened_variable_is_shortened() -> None:
    """In arithmetic a variable has no $, and must be renamed all the same."""
    for name in module._VARIABLES:
        assert re.search(rf"\$\{{?{name}\b|^\s*{name}=", SCRIPT, re.MULTILINE) is None
        source = Path(module.__file__).with_name("collect.sh").read_text()
        for sum_ in re.findall(r"\$\(\([^()]+\)\)", source):
            assert re.search(rf"(?<!\$)\b{name}\b", sum_) is None


def test_a_shortened_function_is_no_other_word() -> None:
    """The name of a shortened function is used for nothing else, nor is its short name."""
    source = Path(module.__file__).with_name("collect.sh").read_text()
    assert set(re.findall(r"^(\w)\(\)", SCRIPT, re.MULTILINE)) == {*module._FUNCTIONS.values()}
    for name, short in module._FUNCTIONS.items():
        assert re.search(rf"\b{name}\b", SCRIPT) is None
        assert re.search(rf"^{short}\(\)", source, re.MULTILINE) is None


def test_no_tool_uses_blkids_cache() -> None:
    """The variable is exported before the first tool runs."""
    head, variable, rest = SCRIPT.partition(" BLKID_FILE=/dev/null\n")
    assert variable
    assert head.splitlines()[-1].startswith("export ")
    assert "dumpe2fs" in rest


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a directory to others")
@some_shells
def test_what_is_closed_to_a_user_is_not_said_to_be_missing(shell: str) -> None:
    """Below a directory that it may not search, such as a closed /sys, the shell finds nothing."""
    with TemporaryDirectory() as top:
        Path(top).chmod(0o711)
        closed, gone = f"{top}/closed", f"{top}/gone"
        Path(closed).mkdir(mode=0o700)
        asks = "\n".join(f"of {each} x\nnames {each}" for each in (closed, gone))
        script = re.sub(r"^capture$", asks, SCRIPT, flags=re.MULTILINE)
        printed = collect(shell, script=script, wrapper=NOBODY).stdout
    found = re.findall(r'"path":"([^"]*)","unknown":.*"why":"([a-z]+)"', unzipped(printed))
    assert found == [
        (f"{closed}/x", "denied"),
        (closed, "denied"),
        (f"{gone}/x", "absent"),
        (gone, "absent"),
    ]


def unzipped(printed: bytes) -> str:
    """Return the lines of a snapshot."""
    return gzip.decompress(printed).decode()
