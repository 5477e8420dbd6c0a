"""One report, in the format that was asked for, where it was to go."""

from __future__ import annotations

import sys

from ext4audit import __version__
from ext4audit.cli.output import write
from ext4audit.cli.report_options import ReportOptions
from ext4audit.cli.terminal import is_ascii_only, wants_color, width
from ext4audit.policy import exit_code
from ext4audit.report import Report


def print_report(report: Report, asked: ReportOptions) -> int:
    """Write the report and return the exit code that it deserves."""
    write(_rendered(report, asked), asked.output)
    return exit_code(report, asked.threshold, allow_incomplete=asked.allow_incomplete)


def _rendered(report: Report, asked: ReportOptions) -> str:
    """Render in one format; each renderer is imported only when it is asked for."""
    if asked.fmt == "json":
        from ext4audit.renderers import json_v1  # noqa: PLC0415

        return json_v1.render(report, tool_version=__version__)
    if asked.fmt == "ndjson":
        from ext4audit.renderers import ndjson  # noqa: PLC0415

        return ndjson.render(report, tool_version=__version__)
    from ext4audit.renderers import text  # noqa: PLC0415

    to_file = asked.output is not None
    return text.render(
        report,
        verbosity=asked.verbosity,
        color=asked.color == "always" or (not to_file and wants_color(asked.color, sys.stdout)),
        width=None if to_file else width(sys.stdout),
        ascii_only=not to_file and is_ascii_only(sys.stdout),
    )
