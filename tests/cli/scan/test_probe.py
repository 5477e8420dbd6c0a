"""`scan --probe`: how a measurement changes a report, and which files are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.hosts.fixture_hosts import HOSTS
from support.program import run

HOST = HOSTS / "raid0-12-disks-default-mkfs"


def scan(*arguments: str) -> dict[str, Any]:
    """Return the JSON of a scan of the fixture host."""
    done = run("scan", "--from", str(HOST / "snapshot"), "-f", "json", *arguments)
    assert done.returncode in {0, 1, 3}, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def rename_run(report: dict[str, Any], verdict: str) -> dict[str, Any]:
    """Return a run that measured renames on the host's array."""
    found = next(fs for fs in report["filesystems"] if fs["device"] == "/dev/md127")
    options = {"auto_da_alloc": "auto_da_alloc", "data": "data=ordered", "delalloc": "delalloc"}
    result = {
        "probe": "rename",
        "rule": "PRF002",
        "verdict": verdict,
        "why": "it was measured",
        "healthy": "2 s",
        "measured": {},
    }
    return {
        "kind": "ext4audit probe",
        "schema_version": "1.0",
        "mode": "probe",
        "taken_at": "2026-01-02T03:04:05Z",
        "host": report["host"]["name"],
        "kernel_release": report["host"]["kernel_release"],
        "directory": "/data",
        "filesystem": {"uuid": found["uuid"], "device": "/dev/md127", "options": options},
        "results": [result],
    }


@pytest.mark.parametrize(
    ("verdict", "outcome", "confidences"),
    [
        ("affected", "fail", ["confirmed"]),
        ("healthy", "pass", []),
        ("inconclusive", "fail", ["likely"]),
    ],
)
def test_measurement_confirms_or_clears_a_likely_finding(
    tmp_path: Path, verdict: str, outcome: str, confidences: list[str]
) -> None:
    """The fixture's stall is likely by estimate; the measurement decides, and is cited."""
    path = tmp_path / "probe.json"
    run_of_host = rename_run(scan("--select", "PRF002"), verdict)
    path.write_text(json.dumps(run_of_host))
    report = scan("--select", "PRF002", "--probe", str(path))
    found = next(
        each
        for each in report["verdicts"]
        if each["filesystem"] == run_of_host["filesystem"]["uuid"]
    )
    assert found["outcome"] == outcome
    assert [finding["confidence"] for finding in found["findings"]] == confidences
    assert ("it was measured" in json.dumps(found)) == (verdict != "inconclusive")


def test_measurement_of_another_kernel_is_ignored(tmp_path: Path) -> None:
    """The report has a notice with the reason, and the finding is unchanged."""
    path = tmp_path / "probe.json"
    before = scan("--select", "PRF002")
    path.write_text(json.dumps({**rename_run(before, "healthy"), "kernel_release": "5.10"}))
    report = scan("--select", "PRF002", "--probe", str(path))
    assert report["verdicts"] == before["verdicts"]
    assert any("made with Linux 5.10" in notice for notice in report["notices"])


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"kind": "ext4audit probe"}', "\xff"])
def test_invalid_probe_file_is_refused(tmp_path: Path, text: str) -> None:
    """The usage error is one line with the file's name."""
    path = tmp_path / "probe.json"
    path.write_text(text, encoding="latin-1")
    done = run("scan", "--probe", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}: not the output of `ext4audit probe -f json`" in done.stderr


def test_long_or_missing_probe_file_is_refused(tmp_path: Path) -> None:
    """A file is read up to a limit."""
    path = tmp_path / "probe.json"
    with path.open("wb") as file:
        file.truncate((16 << 20) + 1)
    assert "longer than 16 MiB" in run("scan", "--probe", str(path)).stderr
    missing = run("scan", "--probe", str(tmp_path / "missing"))
    assert missing.returncode == 2
    assert "No such file" in missing.stderr


def test_fleet_reports_unused_probe_runs(tmp_path: Path) -> None:
    """Without the notice, the findings would look as if they were measured."""
    host = scan("--select", "PRF002")
    run_ = rename_run(host, "healthy")
    for name, changes in (("used", {}), ("unused", {"host": "other", "directory": "/other"})):
        (tmp_path / name).write_text(json.dumps({**run_, **changes}))
    options = [word for name in ("used", "unused") for word in ("--probe", str(tmp_path / name))]
    sources = [f"--from={name}={HOST / 'snapshot'}" for name in "ab"]
    done = run("scan", *sources, "--select", "PRF002", *options)
    assert re.findall("the probe of (.*) is used for no", done.stderr) == ["/other on other"]
