"""Golden outputs: what each format says of a fixture, kept beside it.

The report of a fixture is in `expected.<exit code>.<format>`. `pytest --accept` writes the files
anew; the difference is then read by a person.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from ext4audit.cli.output import FORMATS, NAGIOS
from ext4audit.finding import Severity
from ext4audit.policy.exit_codes import exit_code, nagios_code
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.report import Report

PAGE = Page(tool_version="0", taken_at="2026-01-02T03:04:05Z")


def check_golden(story: Path, report: Report, fmt: str, *, accept: bool) -> None:
    """Compare what a format makes of a report with what is kept, or keep it."""
    module = importlib.import_module(f"ext4audit.renderers.{FORMATS[fmt]}")
    found = module.render((Audited(story.name, report),), PAGE).encode("utf-8")
    expected = story / f"expected.{_code(report, fmt)}.{fmt}"
    if accept:
        for old in story.glob(f"expected.*.{fmt}"):
            old.unlink()
        expected.write_bytes(found)
    assert found == expected.read_bytes()


def _code(report: Report, fmt: str) -> int:
    if fmt == NAGIOS:
        return nagios_code((report,), Severity.MEDIUM, allow_incomplete=False)
    return exit_code(report, Severity.MEDIUM, allow_incomplete=False)
