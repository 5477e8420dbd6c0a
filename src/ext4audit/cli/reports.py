"""Print reports in the chosen formats, also as a step summary of GitHub Actions."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from ext4audit import __version__, lazily
from ext4audit.cli import OutputFailed, print_diagnostic
from ext4audit.cli.options import ReportOptions
from ext4audit.cli.output import DEFAULT, NAGIOS, Output, is_ascii_only, wants_color, width, write
from ext4audit.renderers.shared import Audited, Page
from ext4audit.report import PlanAdvice, Report, exit_code, nagios_code
from ext4audit.sources import utc_now

VARIABLE = "GITHUB_STEP_SUMMARY"
LARGEST_BYTES = 1 << 20
"""GitHub refuses a step's summary beyond 1 MiB (docs: workflow commands, job summaries)."""
MORE = b"\n**Cut here: the whole report does not fit into a step's summary.**\n"
LONGEST_END = 1024
"""Room for that sentence and for a fence."""


def append_summary(hosts: Sequence[Audited], page: Page, advice: PlanAdvice | None = None) -> None:
    """Append the findings to the step's summary, where there is one; raises OutputFailed."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        with open(path, "ab") as file:  # noqa: PTH123 - pathlib costs a scan its start
            room = LARGEST_BYTES - file.tell()
            file.write(_cut(_rendered("markdown", hosts, page, advice), room))
    except OSError as error:
        raise OutputFailed(f"cannot write to {path}: {error.strerror or error}") from error


def _cut(text: str, room_bytes: int) -> bytes:
    """Return the lines that fit, with a note where lines are cut."""
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= room_bytes:
        return whole
    kept = whole[: max(room_bytes - LONGEST_END, 0)].rpartition(b"\n")[0]
    return b"\n".join((kept, _open_fence(kept), MORE)) if kept else b""


def _open_fence(text: bytes) -> bytes:
    """Return the line that closes a code block in which a text ends, empty outside of one."""
    fence = b""
    for line in text.split(b"\n"):
        marks = line[: len(line) - len(line.lstrip(b"`"))]
        if fence and line == fence:
            fence = b""
        elif not fence and len(marks) >= len(b"```"):
            fence = marks
    return fence


def print_report(report: Report, asked: ReportOptions, *, whole: bool = True) -> int:
    """Write one host's report, and return its exit code.

    `whole` says that all its filesystems were judged.
    """
    report = asked.post_processing.one(report, asked.rules, whole=whole)
    host = Audited(report.source.label, report)
    write_pages(asked.outputs, (host,), asked)
    print_notices(report, asked)
    return code_of(report, asked)


def print_notices(report: Report, asked: ReportOptions) -> None:
    """Print notices about the policy file on standard error, where no text report has them."""
    if asked.verbosity < 0 or all(output.fmt != DEFAULT for output in asked.outputs):
        for notice in report.notices:
            print_diagnostic(notice)


def code_of(report: Report, asked: ReportOptions) -> int:
    """Return the exit code of one report: a plugin's where the first format is one."""
    if asked.outputs[0].fmt == NAGIOS:
        return nagios_code((report,), asked.threshold, allow_incomplete=asked.allow_incomplete)
    return exit_code(report, asked.threshold, allow_incomplete=asked.allow_incomplete)


def write_pages(outputs: Sequence[Output], hosts: Sequence[Audited], asked: ReportOptions) -> None:
    """Write hosts in every format; a destination that fails does not prevent the others.

    Raises OutputFailed or BrokenPipeError of the first that failed, when all were tried.
    """
    failures = [_failure(output, hosts, asked) for output in outputs]
    for failure in filter(None, failures):
        raise failure


def _failure(
    output: Output, hosts: Sequence[Audited], asked: ReportOptions
) -> OutputFailed | BrokenPipeError | None:
    """Write hosts in one format, and return the error of its destination."""
    try:
        write_page(output, hosts, asked)
    except (OutputFailed, BrokenPipeError) as error:
        return error
    return None


def write_page(
    output: Output,
    hosts: Sequence[Audited],
    asked: ReportOptions,
    advice: PlanAdvice | None = None,
) -> None:
    """Write hosts in one format to its place, a plan with its commands to use."""
    page = page_of(output, asked)
    text = _rendered(output.module, hosts, page, advice)
    write(text, output.path, linked=output.fmt == DEFAULT and page.color)
    if output.fmt == "github":
        append_summary(hosts, page, advice)


def _rendered(module: str, hosts: Sequence[Audited], page: Page, advice: PlanAdvice | None) -> str:
    """Return hosts in one format; each renderer is imported when it is asked for."""
    if advice is None:
        return str(lazily(f"renderers.{module}", "render")(hosts, page))
    return str(lazily(f"renderers.{module}", "render_plan")(hosts[0].report, advice, page))


def page_of(output: Output, asked: ReportOptions) -> Page:
    """Return the page for a destination: a file has no colour, no width, and full Unicode."""
    to_file = output.path is not None
    return Page(
        tool_version=__version__,
        taken_at=utc_now(),
        threshold=asked.threshold,
        asked=asked.asked,
        allow_incomplete=asked.allow_incomplete,
        seconds=time.monotonic() - asked.started,
        verbosity=asked.verbosity,
        color=asked.color == "always" or (not to_file and wants_color(asked.color, sys.stdout)),
        width=None if to_file else width(sys.stdout),
        ascii_only=not to_file and is_ascii_only(sys.stdout),
        has_summary=bool(os.environ.get(VARIABLE)),
        group_by=asked.group_by,
    )
