"""NDJSON: a line for each host, with its report in JSON version 1 or why it could not be read."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.renderers import Audited, Page, json_text
from ext4audit.renderers.json_v1 import (
    SCHEMA_VERSION,
    plan_object,
    report_object,
)
from ext4audit.report import PlanAdvice, Report


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return a line for each host; the text is ASCII."""
    return "".join(_host_line(host, page.tool_version) for host in hosts)


def _host_line(host: Audited, tool_version: str) -> str:
    if host.report is None:
        return render_unread(host, kind="unreadable", tool_version=tool_version)
    return render_report(host.report, tool_version=tool_version)


def render_report(report: Report, *, tool_version: str) -> str:
    """Return a report as one line; the text is ASCII."""
    return json_text(report_object(report, tool_version=tool_version), indent=None)


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan as one line; the text is ASCII."""
    return json_text(plan_object(report, advice, page), indent=None)


def render_unread(host: Audited, *, kind: str, tool_version: str) -> str:
    """Return the line of a host without a report; `kind` is "unreadable" or "internal"."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "source": {
            "kind": None,
            "label": host.label,
            "taken_at": None,
            "key": host.name,
            "groups": list(host.groups),
        },
        "error": {"kind": kind, "message": host.error or ""},
    }
    return json_text(document, indent=None)
