"""Reports, in the formats that were asked for, where they were to go."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence

from ext4audit import __version__
from ext4audit.cli.diagnostics import tell
from ext4audit.cli.output import OutputFailed, write
from ext4audit.cli.report_options import ReportOptions, now
from ext4audit.cli.sinks import DEFAULT, NAGIOS, Sink
from ext4audit.cli.terminal import is_ascii_only, wants_color, width
from ext4audit.policy.exit_codes import exit_code, nagios_code
from ext4audit.renderers.page import Audited, Page
from ext4audit.report import Report


def print_report(report: Report, asked: ReportOptions, *, whole: bool = True) -> int:
    """Write one host's report, and return the exit code that it deserves.

    `whole` says that all its filesystems were judged.
    """
    report = asked.treatment.one(report, asked.rules, whole=whole)
    host = Audited(report.source.label, report)
    write_pages(asked.sinks, (host,), asked)
    tell_notices(report, asked)
    return code_of(report, asked)


def tell_notices(report: Report, asked: ReportOptions) -> None:
    """Say on standard error what the policy file has to be told of, where no text shows it."""
    if asked.verbosity < 0 or all(sink.fmt != DEFAULT for sink in asked.sinks):
        for notice in report.notices:
            tell(notice)


def code_of(report: Report, asked: ReportOptions) -> int:
    """Return the exit code of one report: a plugin's where the first format is one."""
    if asked.sinks[0].fmt == NAGIOS:
        return nagios_code((report,), asked.threshold, allow_incomplete=asked.allow_incomplete)
    return exit_code(report, asked.threshold, allow_incomplete=asked.allow_incomplete)


def write_pages(sinks: Sequence[Sink], hosts: Sequence[Audited], asked: ReportOptions) -> None:
    """Write hosts in every format; a consumer that fails takes no other's report with it.

    Raises OutputFailed or BrokenPipeError of the first that failed, when all were tried.
    """
    failures = [_failure(sink, hosts, asked) for sink in sinks]
    for failure in filter(None, failures):
        raise failure


def _failure(
    sink: Sink, hosts: Sequence[Audited], asked: ReportOptions
) -> OutputFailed | BrokenPipeError | None:
    """Write hosts in one format, and return what went wrong at its place."""
    try:
        write_page(sink, hosts, asked)
    except (OutputFailed, BrokenPipeError) as error:
        return error
    return None


def write_page(sink: Sink, hosts: Sequence[Audited], asked: ReportOptions) -> None:
    """Write hosts in one format to its place; each renderer is imported when it is asked for."""
    module = importlib.import_module(f"ext4audit.renderers.{sink.module}")
    write(module.render(hosts, page_of(sink, asked)), sink.path)
    if sink.fmt == "github":
        from ext4audit.cli.step_summary import append_summary  # noqa: PLC0415 - for Actions only

        append_summary(hosts, page_of(sink, asked))


def page_of(sink: Sink, asked: ReportOptions) -> Page:
    """Return how a page looks at its place: a file has no colour, no width, and all of Unicode."""
    to_file = sink.path is not None
    return Page(
        tool_version=__version__,
        taken_at=now(),
        threshold=asked.threshold,
        allow_incomplete=asked.allow_incomplete,
        seconds=time.monotonic() - asked.started,
        verbosity=asked.verbosity,
        color=asked.color == "always" or (not to_file and wants_color(asked.color, sys.stdout)),
        width=None if to_file else width(sys.stdout),
        ascii_only=not to_file and is_ascii_only(sys.stdout),
    )
