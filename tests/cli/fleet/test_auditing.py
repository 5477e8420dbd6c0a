"""Many hosts in many processes: one that crashes or is killed only loses its own report."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
from hypothesis import given

from ext4audit.cli.captured import Place
from ext4audit.cli.fleet import auditing as fleet
from ext4audit.cli.fleet import one_host
from ext4audit.cli.fleet.one_host import Job, TimeLimitExceeded, audit_place, resource_limits
from ext4audit.cli.policy import PostProcessing
from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.finding import Severity
from ext4audit.policy.baseline import HostIdentity, KnownFinding, KnownHost
from ext4audit.renderers import Page
from ext4audit.renderers.shared.fleet import HostLine
from ext4audit.report import ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources import ArchiveError, captured
from ext4audit.sources import fleet as fleet_source
from ext4audit.sources.timeouts import BoundedCalls
from support.examples import examples
from support.hosts.fleets import write_fleet
from support.hosts.strategies import HOSTS
from support.timing import PATIENCE_SECONDS, hang, wait_until

REAL_RULES = all_rules()

JOB = Job(
    rules=frozenset({"PRF001"}),
    targets=(),
    profiles=(),
    threshold=Severity.MEDIUM,
    allow_incomplete=False,
    post_processing=PostProcessing(),
    pages=(("ndjson", Page("0.1.0", "", ascii_only=True)),),
    keep=False,
)


def audit_or_crash(place: Place, job: Job) -> HostLine:
    """Audit a host, except for two that crash."""
    if place.path.endswith("host00003.json"):
        raise RecursionError("a rule that was never seen")
    if place.path.endswith("host00007.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    return audit_place(place, job)


@pytest.fixture
def host_folders(tmp_path: Path) -> list[Place]:
    """Write twelve hosts."""
    write_fleet(tmp_path / "fleet", 12)
    paths = sorted((tmp_path / "fleet").iterdir())
    return [Place(str(path), in_fleet=True, key=path.stem) for path in paths]


def test_crash_of_one_host_does_not_affect_others(
    host_folders: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception and a killed process are internal errors of those hosts only: exit 70."""
    monkeypatch.setattr(fleet, "audit_place", audit_or_crash)
    lines = list(fleet._lines(host_folders, JOB))
    found = [json.loads(line.rendered[0]) for line in lines]
    assert [line["source"]["label"] for line in found] == [place.path for place in host_folders]
    assert {n for n, line in enumerate(found) if "error" in line} == {3, 7}
    assert found[3]["error"] == {
        "kind": "internal",
        "message": f"{host_folders[3].path}: RecursionError: a rule that was never seen",
    }
    assert found[7]["error"]["message"].startswith(f"{host_folders[7].path}: BrokenProcessPool: ")
    assert [line.code for line in lines if line.unread] == [70, 70]


def test_number_of_pending_hosts_is_limited(
    host_folders: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are passed on before many more hosts are started: memory use does not grow."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    begun = 0
    start = fleet._Pool.start

    def counted(pool: fleet._Pool, place: Place) -> object:
        nonlocal begun
        begun += 1
        return start(pool, place)

    monkeypatch.setattr(fleet._Pool, "start", counted)
    lines = fleet._lines(host_folders, JOB)
    next(lines)
    assert begun == 8
    lines.close()  # type: ignore[attr-defined]


@examples(40)
@given(judged=HOSTS)
def test_report_from_a_worker_process_is_complete(judged: Host) -> None:
    """Formats that show all hosts together receive the workers' complete reports."""
    report = audit(ReportSource("snapshot", "x"), judged, REAL_RULES)
    assert ForkingPickler.loads(ForkingPickler.dumps(report)) == report


def test_host_beyond_the_time_limit_is_unread(
    host_folders: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit also works if the audit turns all exceptions into unknown evidence."""

    def endless(_source: object, _taken_at: str, **_of_the_source: bool) -> Host:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.01)

    monkeypatch.setattr(one_host, "LONGEST_SECONDS", 0.2)
    monkeypatch.setattr("ext4audit.api.assemble_host", endless)
    lines = list(fleet._lines(host_folders[:2], JOB))
    assert [line.unread for line in lines] == ["takes more than 0.2 s"] * 2
    assert {line.code for line in lines} == {3}


def test_time_limit_works_if_the_first_alarm_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints an exception that a destructor raises, and goes on."""
    monkeypatch.setattr(one_host, "_AGAIN_SECONDS", 0.05)
    with resource_limits(0.05, 1 << 30):
        for _ in range(2):
            with pytest.raises(TimeLimitExceeded):
                time.sleep(PATIENCE_SECONDS)


def test_alarm_after_the_block_leaves_no_limits_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can come when the audit has just ended; the next hosts of the worker would be limited."""
    set_timer, calls = signal.setitimer, list[float]()

    def alarmed_at_the_end(which: int, seconds: float, *interval: float) -> None:
        calls.append(seconds)
        if len(calls) == 2:
            raise TimeLimitExceeded
        set_timer(which, seconds, *interval)

    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(signal, "setitimer", alarmed_at_the_end)
    with pytest.raises(TimeLimitExceeded), resource_limits(PATIENCE_SECONDS, 1 << 30):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)) == before


def test_host_beyond_the_memory_limit_is_unread(host_folders: list[Place]) -> None:
    """Eighteen MiB of empty lists become 400 MiB of objects; the other hosts are read."""
    bomb = Path(host_folders[1].path)
    bomb.write_bytes(b'{"answers": [' + b"[]," * (6 << 20) + b"[]]}")
    lines = list(fleet._lines(host_folders, JOB))
    assert lines[1].unread == "takes more than 256 MiB of memory"
    assert [line.unread for line in lines if line is not lines[1]] == [None] * 11


@pytest.mark.parametrize("call", ["stat", "open", "isdir", "scandir"])
def test_hanging_source_times_out(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead server does not answer any call."""
    monkeypatch.setattr("ext4audit.sources.timeouts.LONGEST_WAIT_SECONDS", 0.1)
    write_fleet(tmp_path / "fleet", 1)
    host = next((tmp_path / "fleet").iterdir())
    at_host = call in {"stat", "open"}
    where = host if at_host else tmp_path / "fleet"
    owner: object = Path if at_host else os.path if call == "isdir" else os
    monkeypatch.setattr(owner, call, hang)
    monkeypatch.setattr(captured._OWN, "calls", BoundedCalls())
    with pytest.raises(ArchiveError, match=f"^{where}: no answer within 0.1 s"):
        captured.open_captured(str(where)) if at_host else fleet_source.hosts_in(str(where))


@pytest.mark.parametrize("keep", [False, True])
def test_reports_are_kept_only_for_formats_that_show_all_hosts(
    host_folders: list[Place], *, keep: bool
) -> None:
    """Formats written host by host need no memory that grows with the fleet."""
    for line in fleet._lines(host_folders, JOB._replace(keep=keep)):
        assert (line.host is not None) is keep


def test_job_is_sent_to_each_process_once(host_folders: list[Place]) -> None:
    """A baseline of ten thousand hosts cannot be sent with each of them."""
    findings = tuple(
        KnownFinding("DUR001", "u", str(number), Severity.LOW, "x", "y") for number in range(20000)
    )
    known = {"db1": [KnownHost(HostIdentity("db1", "db1"), frozenset(), findings)]}
    job = JOB._replace(post_processing=PostProcessing(baselines=known))
    assert len(ForkingPickler.dumps((fleet._audit, host_folders[0]))) < 1000
    assert [line.unread for line in fleet._lines(host_folders, job)] == [None] * len(host_folders)


KILLED_PARENT_SCRIPT = """
import os, sys, time
from pathlib import Path
from ext4audit.cli.fleet import auditing as fleet
from ext4audit.cli import run_program

def hang(place, job):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(600)

fleet.audit_place = hang
run_program(["scan", "-f", "ndjson", "--from", sys.argv[2]])
"""


def test_workers_end_if_the_parent_is_killed(host_folders: list[Place], tmp_path: Path) -> None:
    """They hold its standard output: `ext4audit scan … | jq` would wait for them forever."""
    started = tmp_path / "started"
    started.mkdir()
    command = [
        sys.executable,
        "-c",
        KILLED_PARENT_SCRIPT,
        str(started),
        str(Path(host_folders[0].path).parent),
    ]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE)
    wanted = min(len(os.sched_getaffinity(0)), len(host_folders))
    assert wait_until(lambda: len(list(started.iterdir())) == wanted)
    parent.kill()
    try:
        assert parent.communicate(timeout=PATIENCE_SECONDS)[0] == b""
    finally:
        for worker in started.iterdir():
            with suppress(ProcessLookupError):
                os.kill(int(worker.name), signal.SIGKILL)
