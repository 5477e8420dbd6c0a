"""`ext4audit scan --from`: captured evidence of one or many hosts."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import jsonschema
import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit
from ext4audit.renderers import json_v1
from ext4audit.report import ReportSource
from ext4audit.rules import default_rules
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot.writing import RecordingSource, write_snapshot_tar
from support.hosts.fixture_hosts import HOSTS
from support.hosts.fleets import Original, write_fleet
from support.program import environment, root_fstype, run
from support.timing import PATIENCE_SECONDS, wait_until

FINISHED = {0, 1, 3}


def first_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of a usage error."""
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr.splitlines()[0]


@pytest.fixture
def root_is_ext4() -> None:
    """Skip if / is not on ext4."""
    if root_fstype() not in {"ext2", "ext3", "ext4"}:
        pytest.skip(f"/ is {root_fstype()}, not ext4")


def subjects(*targets: str) -> list[Any]:
    """Return the filesystems of a scan of the targets."""
    done = run("scan", "-f", "json", *targets)
    assert done.returncode in FINISHED, done.stderr
    found: list[Any] = json.loads(done.stdout)["filesystems"]
    return found


@pytest.mark.parametrize(
    ("target", "fstype"), [("/proc", "proc"), ("/proc/self/status", "proc"), ("/sys", "sysfs")]
)
def test_target_not_on_ext4_is_refused(target: str, fstype: str) -> None:
    """The message names the target, its filesystem type, and where that is mounted."""
    where = {"proc": "/proc", "sysfs": "/sys"}[fstype]
    expected = f"ext4audit: {target}: not ext4: {fstype} (mounted on {where})"
    assert first_line(run("scan", target)) == expected


def test_error_names_all_targets_not_on_ext4() -> None:
    """If no target is left to audit, the error names all of them."""
    reported = first_line(run("scan", "/proc", "/sys"))
    assert "/proc: not ext4: proc" in reported
    assert "/sys: not ext4: sysfs" in reported


@pytest.mark.parametrize("name", ["missing", "missing\x1b[31m\nline", "-rf", "a/b/c", "x" * 300])
def test_missing_target_is_refused(tmp_path: Path, name: str) -> None:
    """The error is one line, with control characters escaped."""
    done = run("scan", "--", str(tmp_path / name))
    reported = first_line(done)
    assert reported.startswith(f"ext4audit: {tmp_path}/")
    assert reported.endswith((": does not exist", ": cannot be reached: File name too long"))
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_empty_target_is_refused() -> None:
    """An unset variable in a script must not audit something else."""
    assert first_line(run("scan", "")) == "ext4audit: '': does not exist"


def test_missing_target_beside_others_is_refused() -> None:
    """A misspelt path beside a correct one is an error, not a partial audit."""
    assert first_line(run("scan", "/proc", "/no/such/place")).endswith(": does not exist")


@pytest.mark.usefixtures("root_is_ext4")
def test_root_directory_is_one_filesystem() -> None:
    """A mount point selects its superblock."""
    (found,) = subjects("/")
    assert "/" in found["mount_points"]


@pytest.mark.usefixtures("root_is_ext4")
def test_symbolic_link_is_followed(tmp_path: Path) -> None:
    """A symbolic link selects the filesystem of its target."""
    link = tmp_path / "link"
    link.symlink_to("/")
    assert [fs["id"] for fs in subjects(str(link))] == [fs["id"] for fs in subjects("/")]


@pytest.mark.usefixtures("root_is_ext4")
def test_targets_on_one_superblock_are_one_subject() -> None:
    """A directory, a file and a mount point of one filesystem are judged once."""
    names = [str(path) for path in (Path("/"), Path("/etc"), Path("/etc/passwd")) if path.exists()]
    devices = {Path(name).stat().st_dev for name in names}
    assert len(subjects(*names)) == len(devices)


@pytest.mark.usefixtures("root_is_ext4")
def test_targets_not_on_ext4_are_reported_and_skipped() -> None:
    """The rest is audited, and standard error names the skipped targets."""
    done = run("scan", "-q", "/", "/proc")
    assert done.returncode in FINISHED
    assert done.stderr == "ext4audit: /proc: not ext4: proc (mounted on /proc)\n"
    assert ": 1 filesystem: " in done.stdout


RAID10 = HOSTS / "md-raid10" / "snapshot"
HEALTHY = HOSTS / "healthy-debian-12" / "snapshot"
NOBARRIER = HOSTS / "lvm-linear-nobarrier" / "snapshot"
TWO_HOSTS = ["--from", f"a={RAID10}", "--from", f"b={NOBARRIER}"]


def scan(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run `ext4audit scan ARGUMENTS`, with the given bytes on standard input."""
    with TemporaryFile() as piped:
        piped.write(stdin)
        piped.seek(0)
        return run("scan", *arguments, stdin=piped)


def report(*arguments: str) -> Any:
    """Return the JSON report of one source."""
    return json.loads(scan("-f", "json", *arguments).stdout)


def without_source(found: Any) -> Any:
    """Return a report without the source and time of its evidence."""
    return {key: value for key, value in found.items() if key != "source"}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Write eight hosts; one is garbage, one is a FIFO."""
    directory = tmp_path / "fleet"
    write_fleet(directory, 6)
    (directory / "host00006.tgz").write_bytes(b"garbage")
    os.mkfifo(directory / "host00007")
    return directory


def test_every_snapshot_container_gives_the_same_report(tmp_path: Path) -> None:
    """A directory, a tar, one file and standard input only differ in the source's name."""
    original = Original(RAID10)
    (tmp_path / "a.tgz").write_bytes(original.tar("lab"))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(original.single("lab")))
    expected = report("--from", str(RAID10))
    assert expected["source"] == {
        "kind": "snapshot",
        "label": str(RAID10),
        "taken_at": json.loads((RAID10 / "manifest.json").read_text())["taken_at"],
        "key": "md-raid10",
        "groups": [],
    }
    for name in ("a.tgz", "a.json.gz"):
        found = report("--from", str(tmp_path / name))
        assert without_source(found) == without_source(expected)
    piped = scan("-f", "json", "--from", "-", stdin=original.tar("lab"))
    assert json.loads(piped.stdout)["source"]["label"] == "standard input"
    assert without_source(json.loads(piped.stdout)) == without_source(expected)


def test_replay_equals_the_live_report(tmp_path: Path) -> None:
    """Replaying this host's answers gives the same report, including gaps."""
    recorder = RecordingSource(LiveSource())
    host = assemble_host(recorder, "2026-01-02T03:04:05Z")
    live = json_v1.render_report(
        audit(ReportSource("live", host.name), host, default_rules()), tool_version="0.1.0"
    )
    with (tmp_path / "it.tgz").open("wb") as file:
        write_snapshot_tar(
            file, recorder.answers, taken_at="2026-01-02T03:04:05Z", times=recorder.times
        )
    replayed = without_source(report("--from", str(tmp_path / "it.tgz")))
    assert {**replayed, "tool": None} == {**without_source(json.loads(live)), "tool": None}


def test_one_source_in_every_format() -> None:
    """Text, JSON and one line of NDJSON are possible; findings exit with 1, as in a live scan."""
    text = scan("--from", str(NOBARRIER))
    assert text.returncode == 1
    assert "barrier-disabled" in text.stdout
    line = scan("-f", "ndjson", "--from", str(NOBARRIER))
    assert line.returncode == 1
    assert line.stdout.count("\n") == 1
    assert json.loads(line.stdout) == report("--from", str(NOBARRIER))
    assert scan("--from", str(HEALTHY), "--fail-on", "never").returncode == 0


@pytest.mark.parametrize(
    "target", ["DEVICE", "NAME", "NUMBER", "UUID", "MOUNT", "MOUNT/deeper/file"]
)
def test_target_of_a_captured_host(target: str) -> None:
    """It may be a device, UUID, mount point or path below it; this host is not read."""
    (fs,) = report("--from", str(RAID10))["filesystems"]
    words = {
        "DEVICE": fs["device"],
        "NAME": fs["device"].removeprefix("/dev/"),
        "NUMBER": fs["device_number"],
        "UUID": fs["uuid"],
        "MOUNT": fs["mount_points"][0],
        "MOUNT/deeper/file": f"{fs['mount_points'][0]}/deeper/file",
    }
    found = report("--from", str(RAID10), words[target])
    assert [each["id"] for each in found["filesystems"]] == [fs["id"]]


def test_path_of_a_captured_host_selects_its_mount() -> None:
    """A mistyped path selects its mount, because nothing can check whether it exists."""
    (fs,) = report("--from", str(RAID10))["filesystems"]
    place = fs["mount_points"][0]
    notice = f"ext4audit: {place}/no: no mount point; if it exists, it is on {place}\n"
    quiet = ("-q",)
    for target, options, expected in (
        (f"{place}/no", (), notice),
        (f"{place}/no", quiet, ""),
        (f"{place}/", (), ""),
        (fs["device"], (), ""),
    ):
        assert scan("--from", str(RAID10), target, *options).stderr == expected


def test_unknown_target_of_a_captured_host_is_refused() -> None:
    """Nothing is audited: exit 2, and the message repeats the word."""
    done = scan("--from", str(RAID10), "/dev/nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no ext4 filesystem is called /dev/nothing" in done.stderr


def test_unpacked_snapshot_is_one_host(tmp_path: Path) -> None:
    """An unpacked tar is audited like the tar: as a whole report, not as a line of a fleet."""
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "it.tgz").write_bytes(Original(RAID10).tar("lab"))
    found = report("--from", str(tmp_path / "fleet"))
    assert found["source"]["label"] == f"{tmp_path}/fleet/it.tgz"


def test_fleet_has_one_line_per_host(fleet: Path) -> None:
    """Lines are in the order of names; an unreadable host gets a line, and the rest go on."""
    done = scan("-f", "ndjson", "--from", str(fleet), "--select", "PRF001,PRF002")
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["host"]["name"] for line in lines[:6]] == [f"host{n:05}" for n in range(6)]
    assert [line["error"] for line in lines[6:]] == [
        {
            "kind": "unreadable",
            "message": f"{fleet}/host00006.tgz: neither a snapshot nor an archive; "
            "it begins with 'garbage'",
        },
        {"kind": "unreadable", "message": f"{fleet}/host00007: neither a file nor a directory"},
    ]
    assert done.stderr.splitlines()[-1] == (
        "8 hosts: 1 with findings at medium or worse, 5 clean, 2 unread"
    )


def test_every_line_matches_a_schema(fleet: Path) -> None:
    """Reports match the report's schema; lines of unread sources have a separate schema."""
    reports, unread = (
        jsonschema.Draft202012Validator(json.loads(run("schema", *option).stdout))
        for option in ([], ["--unread"])
    )
    lines = [
        json.loads(line) for line in scan("-f", "ndjson", "--from", str(fleet)).stdout.splitlines()
    ]
    assert [reports.is_valid(line) for line in lines] == [True] * 6 + [False] * 2
    assert [unread.is_valid(line) for line in lines] == [False] * 6 + [True] * 2


def test_fleet_text_is_a_summary_by_rule(fleet: Path) -> None:
    """Each rule with findings shows its hosts and their number; -q shows the totals only."""
    words = ("--from", str(fleet), "--select", "PRF001,PRF002")
    unread = "host00006 (neither a snapshot nor an archive), host00007 (neither a file nor a"
    lines = scan(*words).stdout.splitlines()
    assert lines == [
        "HIGH  PRF001 dioread-nolock-nodelalloc  1 of 8 hosts  host00000",
        "      1 rule below medium, on 4 hosts: -v",
        f"Unread: {unread} directory)",
        "8 hosts: 1 with findings at medium or worse, 5 clean, 2 unread",
    ]
    assert scan("-q", *words).stdout.splitlines() == lines[-1:]
    assert scan("-q", "-f", "ndjson", *words).stderr.splitlines() == lines[-1:]


def test_verbose_fleet_has_each_report_before_the_summary(fleet: Path) -> None:
    """Each report starts with its source, even if it is unread; the sum has all rules."""
    shown = scan("-v", "--from", str(fleet), "--select", "PRF001,PRF002").stdout
    first = shown.splitlines()[0]
    assert first.startswith("host00000: ")
    assert shown.count(" passed; complete.\n\n") == 6
    why = f"{fleet}/host00006.tgz: neither a snapshot nor an archive; it begins with 'garbage'"
    assert f"\n\nhost00006 could not be read: {why}" in shown
    found = ["host00000", "host00001", "host00003", "host00004"]
    low = f"INFO  PRF002 auto-da-alloc-stall        4 of 8 hosts  {', '.join(found)}"
    assert low in shown.splitlines()


@pytest.mark.parametrize(
    ("names", "arguments", "code"),
    [
        (["healthy-debian-12"], [], 0),
        (["healthy-debian-12", "garbage"], [], 3),
        (["healthy-debian-12", "garbage"], ["--allow-incomplete"], 0),
        (["lvm-linear-nobarrier", "garbage"], [], 1),
        (["garbage", "garbage"], ["--allow-incomplete"], 2),
        (["garbage"], ["--allow-incomplete"], 2),
    ],
)
def test_fleet_exit_code_is_the_worst(
    tmp_path: Path, names: list[str], arguments: list[str], code: int
) -> None:
    """The order is 1, 3, 0; an unreadable host is incomplete; if all are, the exit code is 2."""
    (tmp_path / "garbage").write_bytes(b"garbage")
    places = [HOSTS / name / "snapshot" if name != "garbage" else tmp_path / name for name in names]
    words = [f"{number}={place}" for number, place in enumerate(places)]
    options = [word for each in words for word in ("--from", each)]
    assert scan(*options, *arguments).returncode == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "/gone"], "/gone: No such file or directory"),
        (["--from", "-", "--from", "-"], "--from - can be given only once"),
        (["--from", "/dev/null"], "/dev/null: a device"),
        (["--from", "/"], "/: this host itself, which is audited without --from"),
        ([*TWO_HOSTS, "-f", "json"], "use -f ndjson"),
        ([*TWO_HOSTS, "/gone", ""], "no host has a filesystem that is called /gone, ''"),
    ],
)
def test_invalid_combinations_are_refused(arguments: list[str], message: str) -> None:
    """The exit code is 2, and the message gives the reason."""
    done = scan(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_input_as_one_source_of_many() -> None:
    """A worker has no standard input, so its evidence is read in advance."""
    stdin = Original(NOBARRIER).tar("piped")
    done = scan("-f", "ndjson", "--from", str(RAID10), "--from", "-", stdin=stdin)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["host"]["name"] for line in lines] == ["lab", "piped"]
    assert [line["source"]["key"] for line in lines] == ["md-raid10", "piped"]


def test_hostile_file_name_is_escaped(tmp_path: Path) -> None:
    """A file name with ESC and bytes does not reach the terminal raw; JSON has its bytes."""
    name = os.fsencode(str(tmp_path)) + b"/\x1b[31m\xff"
    with open(name, "wb") as file:  # noqa: PTH123 - bytes, not text
        file.write(b"garbage")
    done = subprocess.run(
        [sys.executable, "-m", "ext4audit", "scan", "-f", "ndjson", "--from", name],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr + done.stdout
    assert json.loads(done.stdout)["source"]["label_b64"]


def test_output_file_of_a_fleet_is_complete(fleet: Path, tmp_path: Path) -> None:
    """With -o nothing is on standard output, and the file has every line."""
    done = scan("-f", "ndjson", "--from", str(fleet), "-o", str(tmp_path / "out"))
    assert done.stdout == ""
    assert (tmp_path / "out").read_bytes().count(b"\n") == 8


@pytest.fixture
def long_scan(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a scan of a fleet that takes seconds, with its output in a pipe."""
    write_fleet(tmp_path / "many", 200)
    command = [sys.executable, "-m", "ext4audit", "scan", "-f", "ndjson", "--from"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "many")],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_ends_all_worker_processes(long_scan: subprocess.Popen[bytes]) -> None:
    """The whole process group gets the signal, as from a terminal; exit 130, one line."""
    assert long_scan.stdout is not None
    long_scan.stdout.readline()
    os.killpg(long_scan.pid, signal.SIGINT)
    _, errors = long_scan.communicate(timeout=PATIENCE_SECONDS)
    assert long_scan.returncode == 130
    assert errors == b"ext4audit: interrupted\n"
    assert _has_ended(long_scan.pid)


def test_closed_pipe_ends_the_fleet_quietly(long_scan: subprocess.Popen[bytes]) -> None:
    """With `| head -1` the fleet ends silently, with exit code 141."""
    assert long_scan.stdout is not None
    long_scan.stdout.readline()
    long_scan.stdout.close()
    assert long_scan.wait(PATIENCE_SECONDS) == 141
    assert long_scan.stderr is not None
    assert long_scan.stderr.read() == b""
    assert _has_ended(long_scan.pid)


def _has_ended(group: int) -> bool:
    """Return whether all processes of a group end soon."""

    def is_gone() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    return wait_until(is_gone)


def test_hostile_sources_do_not_affect_others(fleet: Path) -> None:
    """Zeros, a path traversal and two mixed hosts are errors in their own lines."""
    (fleet / "zeros.tgz").write_bytes(gzip.compress(bytes(64 << 20)))
    mixed = io.BytesIO()
    with tarfile.open(fileobj=mixed, mode="w") as tar:
        for host in ("a", "b"):
            tar.add(RAID10, host)
    (fleet / "mixed.tar").write_bytes(mixed.getvalue())
    way_out = io.BytesIO()
    with tarfile.open(fileobj=way_out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../../etc/passwd"))
    (fleet / "out.tar").write_bytes(way_out.getvalue())
    done = scan("-f", "ndjson", "--from", str(fleet))
    lines = {
        json.loads(line)["source"]["label"]: json.loads(line) for line in done.stdout.splitlines()
    }
    assert len(lines) == 11
    reasons = {
        Path(label).name: line["error"]["message"].partition(": ")[2]
        for label, line in lines.items()
        if "error" in line
    }
    assert reasons["zeros.tgz"] == "truncated"
    assert reasons["mixed.tar"].startswith("holds 2 snapshots: ")
    assert reasons["out.tar"].startswith("a path that could leave the archive")


def test_output_is_utf_8_in_any_locale() -> None:
    """HTML declares UTF-8, and Prometheus requires it, even in another locale."""
    latin = {"PYTHONIOENCODING": "latin-1"}
    done = run("scan", "--from", f"é={NOBARRIER}", "-f", "html", env=latin)
    assert "<title>ext4audit: é</title>" in done.stdout
