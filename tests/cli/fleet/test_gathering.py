"""`ext4audit fleet` over a real sshd: its host aliases and their failures."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ext4audit.evidence import need
from ext4audit.sources import EffectiveUser
from ext4audit.sources.captured import unwrap
from support.program import environment
from support.shells.collector import manifest_answers
from support.sshd import (
    ALIASES,
    HANGING,
    HUNG,
    NEEDS_PASSWORD,
    ODD_HOSTS,
    PASSWORD,
    STUCK,
    UNREACHABLE,
    Fleet,
)
from support.timing import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.fleet, pytest.mark.xdist_group("fleet")]

PROGRAM = str(Path(sys.executable).with_name("ext4audit"))
HOST_SECONDS = "30"
"""Timeout for the host that hangs; the others answer in time even on a busy machine."""
ROUNDS = 5
"""Attempts at timed measurements, which other load on the machine delays."""
COMMON = ("--select", "DUR001", "--fail-on", "never")


def log_of(fleet: Fleet) -> Path:
    """Return the path of Ansible's own log."""
    return fleet.folder / "ansible.log"


def start(fleet: Fleet, *options: str, stdin: int) -> subprocess.Popen[str]:
    """Start the command in the directory of ansible.cfg, with pipes and a new log."""
    log_of(fleet).unlink(missing_ok=True)
    command = [PROGRAM, "fleet", *COMMON, *options]
    return subprocess.Popen(
        command,
        cwd=fleet.folder,
        env=environment(ANSIBLE_LOG_PATH=str(log_of(fleet))),
        text=True,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def audit(fleet: Fleet, *options: str, typed: str = "") -> tuple[int, str, str]:
    """Run the command, and return its exit code and outputs; Ansible writes a separate log."""
    with start(fleet, *options, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(typed, timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def read(report: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a report by host key."""
    lines = map(json.loads, report.read_text().splitlines())
    return {line["source"]["key"]: line for line in lines}


def is_root(snapshot: Path) -> bool:
    """Return whether the collector ran as root."""
    answers = manifest_answers(gzip.decompress(unwrap(snapshot.read_bytes())))
    return need(answers[EffectiveUser()]) == "0"


def is_running(process: psutil.Process) -> bool:
    """Return whether a process still runs; in containers nothing reaps zombies."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_every_host_of_the_inventory_has_a_row(fleet: Fleet, tmp_path: Path) -> None:
    """This includes unreachable and hanging hosts; sudo works, and no files are left on hosts."""
    report, kept = tmp_path / "hosts.ndjson", tmp_path / "kept"
    options = ("-b", "-K", "--host-timeout", HOST_SECONDS, "--keep", str(kept), "--group-by", "*")
    outputs = ("-f", "ndjson", "-o", str(report), "-f", "text", "-o", "-")
    code, text, errors = audit(fleet, *options, *outputs, typed=f"{PASSWORD}\n")
    rows = read(report)
    assert sorted(rows) == sorted(ALIASES), errors
    reasons = {key: row["error"]["message"] for key, row in rows.items() if "error" in row}
    assert sorted(reasons) == [UNREACHABLE, HUNG], reasons
    assert reasons[UNREACHABLE].startswith(f"{UNREACHABLE}: unreachable: ")
    assert "Connection refused" in reasons[UNREACHABLE]
    assert reasons[HUNG].startswith(f"{HUNG}: timed out: ")
    assert code == 3, errors
    for key, row in rows.items():
        assert row["source"]["label"] == key
        assert row["source"]["groups"] == (["odd"] if key in ODD_HOSTS else [])
    assert [is_root(kept / f"{name}.txt") for name in ("h01", NEEDS_PASSWORD)] == [True, True]
    assert f"{len(ALIASES)} hosts: " in text
    assert "2 unread" in text
    assert sorted(path.stem for path in kept.iterdir()) == sorted(rows.keys() - reasons.keys())
    assert fleet.left_on_hosts() == []
    log = log_of(fleet).read_text()
    assert log.count("changed=0") == len(ALIASES)
    assert "EXT4AUDIT SNAPSHOT" not in log


def test_check_mode_gives_the_same_reports(fleet: Fleet) -> None:
    """The task runs with --check as without it, because it changes nothing.

    Other tests create filesystems at the same time, so the audit may be incomplete.
    """
    code, out, errors = audit(
        fleet, "-l", "h01", "-f", "ndjson", "--allow-incomplete", "--", "--check"
    )
    assert code == 0, errors
    assert json.loads(out)["source"]["key"] == "h01"
    assert "1 host: " in errors


def test_ctrl_c_ends_the_run_and_keeps_received_snapshots(fleet: Fleet, tmp_path: Path) -> None:
    """It takes a second at most; a collector running on a host cleans up after itself."""
    taken: list[tuple[float, float]] = []
    while len(taken) < ROUNDS and not any(took < most for took, most in taken):
        folder = tmp_path / str(len(taken))
        folder.mkdir()
        took = seconds_until_interrupted(fleet, folder)
        taken.append((took, max(MOST_SECONDS, MOST_STARTS * seconds_of_a_start())))
    assert any(took < most for took, most in taken), taken


MOST_SECONDS = 1.5
"""A second, and half a second more for a busy machine."""
MOST_STARTS = 75
"""The same limit in interpreter starts of 20 ms: it grows on slower machines."""


def seconds_of_a_start() -> float:
    """Return how long an interpreter currently takes to start and exit."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
    return time.monotonic() - began


def seconds_until_interrupted(fleet: Fleet, folder: Path) -> float:
    """Press Ctrl-C while one host hangs; return how long the run takes to end."""
    report = folder / "hosts.ndjson"
    (fleet.folder / HANGING).unlink(missing_ok=True)
    options = ("-i", f"h01,{STUCK},", "-f", "ndjson", "-o", str(report), "--keep", str(folder))

    def is_hanging() -> bool:
        assert process.poll() is None
        return (folder / "h01.txt").exists() and (fleet.folder / HANGING).exists()

    with start(fleet, *options, stdin=subprocess.DEVNULL) as process:
        assert wait_until(is_hanging)
        assert fleet.left_on_hosts() != []
        children = psutil.Process(process.pid).children(recursive=True)
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        took = time.monotonic() - pressed
    assert process.returncode == 130, errors
    rows = read(report)
    assert "error" not in rows["h01"]
    assert rows[STUCK]["error"]["message"] == f"{STUCK}: no answer: interrupted"
    assert not [each for each in children if is_running(each)]
    assert wait_until(lambda: fleet.left_on_hosts() == [])
    return took


def test_unknown_host_key_is_refused(fleet: Fleet) -> None:
    """Ansible checks host keys by default, and the command must not disable that."""
    unknown = ("--", "--ssh-extra-args=-o UserKnownHostsFile=/dev/null -o ControlPath=none")
    code, out, _ = audit(fleet, "-i", "h01,", "-l", "h01", "-f", "ndjson", *unknown)
    assert code == 3
    assert "Host key verification failed" in json.loads(out)["error"]["message"]
