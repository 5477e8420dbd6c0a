"""Golden outputs: the expected report of a fixture in a format, stored next to the fixture.

The report is in `expected.<exit code>.<format>`. `pytest --accept` rewrites the files; a person
then reviews the diff. Every fixture has text and JSON. The other formats are stored for the
fixtures of `IN_EVERY_FORMAT` and for one fleet; NDJSON, which is the JSON report on one line, for
the fleet only. tests/renderers parses each format for every fixture.

The descriptors of all rules, nine tenths of a SARIF log, are stored only once, in sarif-rules.json
next to this module. They are inserted before the comparison, so the whole log is compared.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ext4audit.cli.output import FORMATS, NAGIOS
from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page
from ext4audit.renderers.sarif import descriptor
from ext4audit.report import (
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INCOMPLETE,
    exit_code,
    nagios_code,
)
from ext4audit.rules import all_rules
from support.hosts.fixture_hosts import FIXTURE_HOSTS, IN_EVERY_FORMAT

PAGE = Page(tool_version="0", taken_at="2026-01-02T03:04:05Z")
SARIF_RULES = Path(__file__).with_name("sarif-rules.json")
FOR_EVERY_HOST = ("text", "json")
STORED_REPORTS = [
    (fixture, fmt)
    for fixture in FIXTURE_HOSTS
    for fmt in FORMATS
    if fmt in FOR_EVERY_HOST or (fixture in IN_EVERY_FORMAT and fmt != "ndjson")
]
"""The pairs of a fixture and a format in which its report is stored."""


def check_golden(folder: Path, hosts: Sequence[Audited], fmt: str, *, accept: bool) -> None:
    """Compare the report of hosts in a format with the stored one, which `accept` rewrites."""
    module = importlib.import_module(f"ext4audit.renderers.{FORMATS[fmt]}")
    found = module.render(hosts, PAGE)
    expected = folder / f"expected.{_code(hosts, fmt)}.{fmt}"
    if accept:
        for old in folder.glob(f"expected.*.{fmt}"):
            old.unlink()
        expected.write_bytes((_by_code(found) if fmt == "sarif" else found).encode("utf-8"))
    kept = expected.read_bytes().decode("utf-8")
    assert found == (_with_descriptors(kept, accept=accept) if fmt == "sarif" else kept)


def stored_descriptors(*, accept: bool) -> dict[str, Any]:
    """Return the stored descriptors of all rules by code; `accept` rewrites them."""
    if accept:
        descriptors = {rule.code: descriptor(rule) for rule in all_rules()}
        SARIF_RULES.write_text(_json_text(descriptors), "utf-8")
    by_code: dict[str, Any] = json.loads(SARIF_RULES.read_text("utf-8"))
    return by_code


def _by_code(log: str) -> str:
    """Replace the rules' descriptors with their codes: they are 140 KB, and equal in every log."""
    return _replace_rules(log, lambda rule: rule["id"])


def _with_descriptors(kept: str, *, accept: bool) -> str:
    """Return the complete log for a stored one with codes in place of descriptors."""
    return _replace_rules(kept, stored_descriptors(accept=accept).__getitem__)


def _replace_rules(text: str, change: Callable[[Any], Any]) -> str:
    log = json.loads(text)
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        driver["rules"] = [change(rule) for rule in driver["rules"]]
    return _json_text(log)


def _json_text(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _code(hosts: Sequence[Audited], fmt: str) -> int:
    reports = [host.report for host in hosts]
    if fmt == NAGIOS:
        return nagios_code(reports, Severity.MEDIUM, allow_incomplete=False)
    codes = {
        exit_code(report, Severity.MEDIUM, allow_incomplete=False) if report else EXIT_INCOMPLETE
        for report in reports
    }
    return next(code for code in (EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_CLEAN) if code in codes)
