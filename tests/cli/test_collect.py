from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ext4audit.cli import run_program
from ext4audit.evidence import Known
from ext4audit.sources import ReadFile
from ext4audit.sources.captured import BEGIN, END, MapSource
from support.hosts.fixture_hosts import captured
from support.program import run, run_as_nobody, run_python
from support.shells.collector import SCRIPT

TERMINAL_SCRIPT = """
import os, pty, sys
pid, ours = pty.fork()
if pid == 0:
    os.execv(sys.executable, [sys.executable, "-m", "ext4audit", *sys.argv[1:]])
said = b""
try:
    while chunk := os.read(ours, 4096):
        said += chunk
except OSError:
    pass
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), said.decode())
"""


def manifest_of(snapshot: bytes) -> dict[str, Any]:
    """Return the manifest in a tar.gz."""
    with tarfile.open(fileobj=io.BytesIO(snapshot)) as archive:
        member = archive.extractfile("ext4audit-snapshot/manifest.json")
        assert member is not None
        document: dict[str, Any] = json.load(member)
    return document


def test_snapshot_to_a_file(tmp_path: Path) -> None:
    """Standard output is empty, and the last line of standard error has the size.

    tests/kernel/evidence/test_snapshots.py compares the audit of a snapshot with that of the host.
    """
    target = tmp_path / "host.tar.gz"
    done = run("collect", "-o", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1].startswith(f"ext4audit: {target}: ")
    assert done.stderr.endswith(f", {target.stat().st_size} bytes\n")


def test_snapshot_is_readable_by_owner_only(tmp_path: Path) -> None:
    """It contains fstab and the kernel command line, which may contain passwords."""
    target = tmp_path / "host.tar.gz"
    run("collect", "-o", str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["host.tar.gz"]


def test_snapshot_to_standard_output_is_tar() -> None:
    """Without -o, and with `-o -`, the tar.gz goes to standard output."""
    for arguments in ((), ("-o", "-")):
        done = run_python("-c", BINARY_CHANNEL, "collect", *arguments)
        assert "answers" in manifest_of(bytes.fromhex(done.stdout))


BINARY_CHANNEL = """
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "ext4audit", *sys.argv[1:]], stdout=subprocess.PIPE)
print(done.stdout.hex())
"""


def test_text_snapshot_survives_any_channel(tmp_path: Path) -> None:
    """`--text` is base64 between markers; `scan --from` skips the text around it."""
    text = run("collect", "--text").stdout
    assert text.startswith(BEGIN)
    assert text.endswith(f"{END}\n")
    sent, mailed = tmp_path / "sent.txt", tmp_path / "mail.txt"
    sent.write_text(text)
    mailed.write_text("Hello,\r\n" + text.replace("\n", "\r\n") + "-- \r\nroot")
    first, second = (json.loads(_scan(path)) for path in (sent, mailed))
    assert first.pop("source")["label"] == str(sent)
    assert second.pop("source")["label"] == str(mailed)
    assert first == second


def _scan(path: Path) -> str:
    return run("scan", "-f", "json", "--from", str(path)).stdout


def test_lean_omits_large_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lean snapshot lacks udev's properties, the list of groups, and all bytes beyond 1 KiB.

    The host is a captured one, with 1.2 TiB of groups on a stripe.
    """
    source, _ = captured("raid0-12-disks-default-mkfs")
    monkeypatch.setattr("ext4audit.cli.collect.LiveSource", lambda _timeout, **_: source)
    full, lean = tmp_path / "full", tmp_path / "lean"
    assert run_program(["collect", "-o", str(full)]) == 0
    assert run_program(["collect", "--lean", "-o", str(lean)]) == 0
    asked, kept = (_asks(path) for path in (full, lean))
    groups = ("run_command", "dumpe2fs -g /dev/md127")
    descriptors = ("read_bytes", "/dev/md127: 3712 bytes")
    udev = {ask for ask in asked if ask[0] == "udev_database"}
    assert len(udev) > 12
    assert asked - kept == {groups, descriptors, *udev}
    assert kept < asked
    assert lean.stat().st_size < full.stat().st_size / 2


def _asks(snapshot: Path) -> set[tuple[str, str]]:
    """Return the asks of a snapshot: kind and subject."""
    answers = manifest_of(snapshot.read_bytes())["answers"]
    return {(answer["ask"], _subject(answer)) for answer in answers}


def _subject(answer: dict[str, Any]) -> str:
    if "argv" in answer:
        return " ".join(answer["argv"])
    if "length_bytes" in answer:
        return f"{answer['path']}: {answer['length_bytes']} bytes"
    return str(answer.get("path") or answer.get("mount_point") or answer.get("device_number"))


def test_credentials_are_masked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The snapshot and standard error name the file in which a value was masked."""
    source = MapSource({FSTAB: Known("//a /b cifs user=u,password=S3cret 0 0\n", "/etc/fstab")})
    monkeypatch.setattr("ext4audit.cli.collect.LiveSource", lambda *_args, **_limits: source)
    target = tmp_path / "host.tar.gz"
    assert run_program(["collect", "-o", str(target)]) == 0
    masked = "ext4audit: masked: /etc/fstab: values that look like passwords"
    assert masked in capsys.readouterr().err
    document = manifest_of(target.read_bytes())
    assert document["masked"] == ["/etc/fstab"]
    (fstab,) = (each for each in document["answers"] if each.get("path") == "/etc/fstab")
    assert fstab["text"] == "//a /b cifs user=u,password=*** 0 0\n"


FSTAB = ReadFile("/etc/fstab")


def test_manifest_has_host_tool_and_times() -> None:
    """The snapshot contains who took it, and when each answer was given."""
    done = run_python("-c", BINARY_CHANNEL, "collect")
    document = manifest_of(bytes.fromhex(done.stdout))
    assert document["host"] == os.uname().nodename
    assert document["tool"].startswith("ext4audit ")
    assert all(answer["taken_at"].endswith("Z") for answer in document["answers"])


def test_only_the_targets_are_captured(tmp_path: Path) -> None:
    """A TARGET that is not on ext4 is refused, as by `scan`."""
    done = run("collect", "-o", str(tmp_path / "x"), "/proc")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "ext4audit: /proc: not ext4: proc (mounted on /proc)"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"LUKS\xba\xbe" + bytes(1 << 20), "no ext2, ext3 or ext4: LUKS"),
        (bytes(1 << 20), "only zeros at byte 1024"),
        (bytes(range(256)) * 4096, "no superblock at byte 1024"),
    ],
    ids=["luks", "zeros", "junk"],
)
def test_damaged_image_as_target_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    """As for `scan`, a damaged image is an error, not a snapshot of something else."""
    image = tmp_path / "image"
    image.write_bytes(content)
    done = run("collect", "-o", str(tmp_path / "out"), str(image))
    assert done.returncode == 2
    assert f"ext4audit: {image}: " in done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_image_as_target_is_refused(tmp_path: Path) -> None:
    """A snapshot contains the filesystems of a host."""
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", tmp_path / "image", "8M"], check=True)
    done = run("collect", "-o", str(tmp_path / "out"), str(tmp_path / "image"))
    assert done.returncode == 2
    assert "an image file, which a snapshot cannot hold: scan it where it lies" in done.stderr


def test_refused_evidence_is_reported() -> None:
    """Without root, capturing succeeds, and reports what is missing and how to get it."""
    done = run_as_nobody("collect", "-o", "/dev/null")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[:-1] == [line for line in lines if line.startswith("ext4audit: not read: ")]
    assert all(line.endswith("(run as root)") for line in lines[:-1])


def test_script_is_printed() -> None:
    """`--script` prints the collector, byte for byte."""
    done = run("collect", "--script")
    assert (done.returncode, done.stdout, done.stderr) == (0, SCRIPT, "")


def test_script_to_a_file(tmp_path: Path) -> None:
    """`--script -o FILE` makes it readable for all: it contains no secrets."""
    target = tmp_path / "collect.sh"
    assert run("collect", "--script", "-o", str(target)).returncode == 0
    assert target.read_text() == SCRIPT


@pytest.mark.parametrize("extra", [("--lean",), ("--text",), ("/",)])
def test_options_of_the_script_are_refused(extra: tuple[str, ...]) -> None:
    """Options meant for the script would have no effect here, so they are refused."""
    done = run("collect", "--script", *extra)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == (
        "ext4audit: --script excludes TARGET, --lean and --text: pass them to the script"
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "86401"])
def test_invalid_time_limit_is_refused(seconds: str) -> None:
    """A wait of that length is impossible: exit 2."""
    assert run("collect", "--timeout", seconds, "-o", "/dev/null").returncode == 2


def test_snapshot_to_a_terminal_is_refused() -> None:
    """It would be unreadable, and could leave the terminal in an odd state."""
    reported = run_python("-c", TERMINAL_SCRIPT, "collect").stdout
    assert reported.startswith("2 ext4audit: a snapshot is binary: use -o FILE")


def test_full_disk_is_an_error() -> None:
    """The write error is reported, with the exit code of an internal error."""
    done = run("collect", "-o", "/dev/full")
    assert done.returncode == 70
    assert done.stderr.splitlines()[-1] == (
        "ext4audit: cannot write to /dev/full: No space left on device"
    )
