from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ext4audit.sources.snapshot import BEGIN, END
from support.program import AS_NOBODY, run, run_python
from support.shells.collector import SCRIPT

ON_A_TERMINAL = """
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


def report(*arguments: str) -> dict[str, object]:
    """Return the JSON report of a scan, without what must differ: source and time.

    PRF002 reckons with the memory that is free, the rules of capacity with the space: no two
    moments have these in common.
    """
    done = run("scan", "-f", "json", "--ignore", "PRF002,CAP", *arguments)
    document: dict[str, object] = json.loads(done.stdout)
    del document["source"]
    return document


def of_the_root(whole: dict[str, Any]) -> dict[str, object]:
    """Return of a report what is about the filesystem on /, which stays between two scans."""
    found = [fs for fs in whole["filesystems"] if "/" in fs["mount_points"]]
    ids = {fs["id"] for fs in found}
    verdicts = [verdict for verdict in whole["verdicts"] if verdict["filesystem"] in ids]
    return {"host": whole["host"], "filesystems": found, "verdicts": verdicts}


def assert_audited_like_the_host(snapshot: Path, before: dict[str, object]) -> None:
    """Compare all of it with the report of before, or / where filesystems come and go."""
    captured, after = report("--from", str(snapshot)), report()
    if before == after:
        assert captured == after
    assert of_the_root(captured) == of_the_root(after)


def test_a_snapshot_of_this_host_is_audited_like_the_host(tmp_path: Path) -> None:
    """`scan --from` of what `collect` wrote gives the live report."""
    before = report()
    target = tmp_path / "host.tar.gz"
    done = run("collect", "-o", str(target))
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"ext4audit: {target}: ")
    assert_audited_like_the_host(target, before)


def test_a_snapshot_is_for_its_owner_only(tmp_path: Path) -> None:
    """It holds fstab and the kernel's command line, in which passwords are found."""
    target = tmp_path / "host.tar.gz"
    run("collect", "-o", str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["host.tar.gz"]


def test_a_snapshot_goes_to_standard_output_as_tar() -> None:
    """Without -o, and with `-o -`, the tar.gz is on standard output."""
    for arguments in ((), ("-o", "-")):
        done = run_python("-c", BINARY, "collect", *arguments)
        assert "answers" in manifest_of(bytes.fromhex(done.stdout))


BINARY = """
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "ext4audit", *sys.argv[1:]], stdout=subprocess.PIPE)
print(done.stdout.hex())
"""


def test_text_goes_through_every_channel(tmp_path: Path) -> None:
    """`--text` is base64 between markers, and `scan --from` reads it behind a login's noise."""
    before = report()
    text = run("collect", "--text").stdout
    assert text.startswith(BEGIN)
    assert text.endswith(f"{END}\n")
    mailed = tmp_path / "mail.txt"
    mailed.write_text("Hello,\r\n" + text.replace("\n", "\r\n") + "-- \r\nroot")
    assert_audited_like_the_host(mailed, before)


def test_lean_leaves_out_what_is_large() -> None:
    """A lean snapshot has no properties of udev, no list of groups, and no bytes beyond 1 KiB.

    The descriptors of a filesystem of a few groups are less than its superblock, and stay.
    """
    done = run_python("-c", BINARY, "collect", "--lean")
    answers = manifest_of(bytes.fromhex(done.stdout))["answers"]
    assert {answer["ask"] for answer in answers}.isdisjoint({"udev_database"})
    assert all(a["length_bytes"] <= 1024 for a in answers if a["ask"] == "read_bytes")
    assert [a for a in answers if a.get("argv", [])[:2] == ["dumpe2fs", "-g"]] == []


def test_the_manifest_names_host_tool_and_times() -> None:
    """When each answer was given is in the snapshot, and by whom it was taken."""
    done = run_python("-c", BINARY, "collect")
    document = manifest_of(bytes.fromhex(done.stdout))
    assert document["host"] == os.uname().nodename
    assert document["tool"].startswith("ext4audit ")
    assert all(answer["taken_at"].endswith("Z") for answer in document["answers"])


def test_only_the_targets_are_captured(tmp_path: Path) -> None:
    """A TARGET that is not on ext4 is refused as `scan` refuses it."""
    done = run("collect", "-o", str(tmp_path / "x"), "/proc")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "ext4audit: /proc: not ext4: proc (mounted on /proc)"
    assert list(tmp_path.iterdir()) == []


def test_what_was_refused_is_told() -> None:
    """Capturing succeeds without root, and says what it lacks and how to get it."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    loaded = "import gzip, tarfile, tempfile\n" + AS_NOBODY
    done = run_python("-c", loaded, "collect", "-o", "/dev/null")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[:-1] == [line for line in lines if line.startswith("ext4audit: not seen: ")]
    assert all(line.endswith("(run as root)") for line in lines[:-1])


def test_the_script_is_printed() -> None:
    """`--script` prints the collector, byte by byte."""
    done = run("collect", "--script")
    assert (done.returncode, done.stdout, done.stderr) == (0, SCRIPT, "")


def test_the_script_goes_to_a_file(tmp_path: Path) -> None:
    """`--script -o FILE` writes it, for all to read: there is no secret in it."""
    target = tmp_path / "collect.sh"
    assert run("collect", "--script", "-o", str(target)).returncode == 0
    assert target.read_text() == SCRIPT


@pytest.mark.parametrize("extra", [("--lean",), ("--text",), ("/",)])
def test_the_script_takes_its_options_itself(extra: tuple[str, ...]) -> None:
    """What is meant for the script would be lost here, so it is refused."""
    done = run("collect", "--script", *extra)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == (
        "ext4audit: --script takes no TARGET, --lean or --text: the script does"
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "86401"])
def test_a_time_limit_must_be_one(seconds: str) -> None:
    """No clock can wait for it: exit 2."""
    assert run("collect", "--timeout", seconds, "-o", "/dev/null").returncode == 2


def test_no_snapshot_goes_to_a_terminal() -> None:
    """It would show nothing to a person, and leave the terminal in an odd state."""
    said = run_python("-c", ON_A_TERMINAL, "collect").stdout
    assert said.startswith("2 ext4audit: a terminal shows no snapshot: use -o FILE")


def test_a_full_disk_is_an_error() -> None:
    """What cannot be written is told, with the exit code of an internal error."""
    done = run("collect", "-o", "/dev/full")
    assert done.returncode == 70
    assert done.stderr.splitlines()[-1] == (
        "ext4audit: cannot write to /dev/full: No space left on device"
    )
