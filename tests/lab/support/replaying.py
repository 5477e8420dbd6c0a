"""Reports, hosts and answers of the captures that the guest left, outside the guest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ext4audit.assemble.host import assemble_host
from ext4audit.cli import run_program
from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.renderers import json_v1
from ext4audit.report import ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources import Answer, Ask
from ext4audit.sources.captured import open_captured
from ext4audit.sources.snapshot.writing import RecordingSource
from lab.support.capturing import LIVE, SCAN


def replayed(snapshot: Path, directory: Path) -> tuple[int, Any]:
    """Return the exit code and the report of auditing a capture on the machine of the test."""
    report = directory / f"{snapshot.name}.json"
    arguments = [*SCAN, "-o", str(report), "--from", str(snapshot)]
    return run_program(arguments), but_source(report)


@cache
def assembled(capture: Path, number: DeviceNumber) -> tuple[Host, Mapping[Ask, Answer]]:
    """Return the host with one filesystem of a capture, and the answers to all that was asked."""
    captured = open_captured(str(capture))
    recorder = RecordingSource(captured.source)
    host = assemble_host(recorder, captured.taken_at, only=[number])
    return host, recorder.answers


@cache
def audited(capture: Path, number: DeviceNumber) -> Any:
    """Return the JSON report of one filesystem of a capture, by all rules."""
    report = audit(ReportSource("snapshot", "lab"), assembled(capture, number)[0], all_rules())
    return json.loads(json_v1.render_report(report, tool_version="0"))


def live(captured: Path) -> tuple[int, Any]:
    """Return the exit code and the report of the live scan."""
    return int((captured / "exit-code").read_text()), but_source(captured / LIVE)


def but_source(report: Path) -> Any:
    """Return a report without its source and time, the only parts that may differ."""
    document = json.loads(report.read_text())
    assert set(document.pop("source")) == {"kind", "label", "key", "taken_at", "groups"}
    return document
