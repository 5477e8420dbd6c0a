"""NDJSON: a line of JSON, version 1, for each host, and one for each that could not be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pkgutil import get_data

from ext4audit.renderers.json_v1 import SCHEMA_VERSION, SURROGATE_ESCAPE, report_object
from ext4audit.renderers.shared.escape import with_original_bytes
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.report import Report


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return a line for each host; the text is ASCII."""
    return "".join(_host_line(host, page.tool_version) for host in hosts)


def _host_line(host: Audited, tool_version: str) -> str:
    if host.report is None:
        message = host.error or ""
        return render_unread(host.label, message, kind="unreadable", tool_version=tool_version)
    return render_report(host.report, tool_version=tool_version)


def render_report(report: Report, *, tool_version: str) -> str:
    """Return a report as one line; the text is ASCII."""
    return _line(report_object(report, tool_version=tool_version))


def render_unread(label: str, message: str, *, kind: str, tool_version: str) -> str:
    """Return the line of a source that gave no report; `kind` is "unreadable" or "internal"."""
    return _line(
        {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "ext4audit", "version": tool_version},
            "source": {"kind": None, "label": label, "taken_at": None},
            "error": {"kind": kind, "message": message},
        }
    )


def unread_schema_text() -> str:
    """Return the JSON Schema (2020-12) that the line of an unread source obeys."""
    data = get_data("ext4audit.renderers.json_v1", "schema-unread-1.0.json")
    if data is None:
        raise FileNotFoundError("schema-unread-1.0.json")
    return data.decode("utf-8")


def _line(document: dict[str, object]) -> str:
    text = json.dumps(document, ensure_ascii=True)
    if SURROGATE_ESCAPE in text:
        text = json.dumps(with_original_bytes(document), ensure_ascii=True)
    return f"{text}\n"
