"""Golden outputs: the report of a fixture in a format, kept beside the fixture.

The report is in `expected.<exit code>.<format>`. `pytest --accept` writes the files anew; a person
then reads the difference. Every story has text and JSON. The other formats are kept for the
stories of `TELLING` and for one fleet; NDJSON, which is the JSON report on one line, for the fleet
only. tests/renderers reads each format back for every story.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

from ext4audit.cli.output import FORMATS, NAGIOS
from ext4audit.finding import Severity
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.report import (
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INCOMPLETE,
    exit_code,
    nagios_code,
)
from support.hosts.stories import STORIES, TELLING

PAGE = Page(tool_version="0", taken_at="2026-01-02T03:04:05Z")
FOR_EVERY_STORY = ("text", "json")
KEPT = [
    (story, fmt)
    for story in STORIES
    for fmt in FORMATS
    if fmt in FOR_EVERY_STORY or (story in TELLING and fmt != "ndjson")
]
"""Which story is kept in which format."""


def check_golden(folder: Path, hosts: Sequence[Audited], fmt: str, *, accept: bool) -> None:
    """Compare what a format makes of hosts with what is kept, or keep it."""
    module = importlib.import_module(f"ext4audit.renderers.{FORMATS[fmt]}")
    found = module.render(hosts, PAGE)
    if fmt == "sarif":
        found = _without_rules(found)
    expected = folder / f"expected.{_code(hosts, fmt)}.{fmt}"
    if accept:
        for old in folder.glob(f"expected.*.{fmt}"):
            old.unlink()
        expected.write_bytes(found.encode("utf-8"))
    assert found.encode("utf-8") == expected.read_bytes()


def _without_rules(text: str) -> str:
    """Leave only the codes of the rules' descriptors: these are 190 KB, and equal in every log.

    tests/renderers/test_sarif.py compares each descriptor with its rule.
    """
    log = json.loads(text)
    assert _sarif_text(log) == text
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        driver["rules"] = [descriptor["id"] for descriptor in driver["rules"]]
    return _sarif_text(log)


def _sarif_text(log: object) -> str:
    return json.dumps(log, indent=2) + "\n"


def _code(hosts: Sequence[Audited], fmt: str) -> int:
    reports = [host.report for host in hosts]
    if fmt == NAGIOS:
        return nagios_code(reports, Severity.MEDIUM, allow_incomplete=False)
    codes = {
        exit_code(report, Severity.MEDIUM, allow_incomplete=False) if report else EXIT_INCOMPLETE
        for report in reports
    }
    return next(code for code in (EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_CLEAN) if code in codes)
