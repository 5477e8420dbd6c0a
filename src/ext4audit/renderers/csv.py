"""CSV (RFC 4180): a row for each finding, and for each rule that could not be judged.

`kind` tells them apart: `finding`, `undetermined` (a rule, or without one what the host hides),
`error` (a rule that stopped), `unread` (a host without a report) and `clean` (a host with none
of these), so that every host has a row. `state` says which findings count: those that are
suppressed or in the baseline have rows too.

`commands` are those of the first remedy, a line each, without those that undo it.

Spreadsheets run a cell that begins like a formula, whatever its quotes: such a cell begins with
an apostrophe here (OWASP, "CSV Injection").
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.rows import Blind, Row, blind_spots, host_names, rows
from ext4audit.renderers.shared.words import disruption_words
from ext4audit.report import Report

COLUMNS = (
    *("host", "kind", "rule", "name", "severity", "confidence", "state"),
    *("device", "mount_point", "uuid", "fact", "message", "evidence", "remedy", "disruption"),
    *("commands", "hint", "reason", "owner", "expires", "source"),
)
LINES = "commands"
"""The one column whose cells have several lines."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The last four are the wide forms, which some editions of Excel take for the others."""


def render(hosts: Sequence[Audited], page: Page) -> str:  # noqa: ARG001 - as every renderer
    """Return a header and the rows, each ended by CR LF."""
    output = StringIO()
    writer = csv.DictWriter(output, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for name, host in zip(host_names(hosts), hosts, strict=True):
        for cells in _of_host(name, host):
            every = {"host": name, **cells, "source": host.label}
            writer.writerow({each: _safe(each, value) for each, value in every.items()})
    return output.getvalue()


def _of_host(name: str, host: Audited) -> Iterator[dict[str, str]]:
    if host.report is None:
        yield {"kind": "unread", "message": host.error or ""}
        return
    cells = [*_of_report(name, host.report)]
    yield from cells or [{"kind": "clean"}]


def _of_report(name: str, report: Report) -> Iterator[dict[str, str]]:
    yield from (_finding(row) for row in rows(name, report))
    yield from (_blind(blind) for blind in blind_spots(name, report))


def _finding(row: Row) -> dict[str, str]:
    finding = row.finding
    cited = [f"{c.label}: {c.value} ({c.origin})" for c in finding.citations]
    return {
        "kind": "finding",
        "rule": row.rule.code,
        "name": row.rule.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "state": row.state,
        **_subject(row.filesystem),
        "fact": finding.fact,
        "message": finding.message,
        "evidence": "; ".join(cited),
        **_remedy(row),
        **_suppression(row),
    }


def _subject(fs: Filesystem | None) -> dict[str, str]:
    if fs is None:
        return {}
    points = fs.mount_points
    return {
        "device": fs.device,
        "mount_point": points[0] if points else "",
        "uuid": fs.uuid or "",
    }


def _remedy(row: Row) -> dict[str, str]:
    if not row.finding.remedies:
        return {}
    first = row.finding.remedies[0]
    steps = [step for step in first.steps if step.phase is not Phase.ROLLBACK]
    return {
        "remedy": first.summary,
        "disruption": disruption_words(first),
        LINES: "\n".join(visible(step.command) for step in steps),
    }


def _suppression(row: Row) -> dict[str, str]:
    said = row.finding.suppression
    if said is None:
        return {}
    return {"reason": said.reason, "owner": said.owner or "", "expires": said.expires or ""}


def _blind(blind: Blind) -> dict[str, str]:
    return {
        "kind": "undetermined" if blind.error is None else "error",
        "rule": blind.rule.code if blind.rule else "",
        "name": blind.rule.name if blind.rule else "",
        **_subject(blind.filesystem),
        "message": blind.words,
        "hint": blind.hint,
    }


def _safe(column: str, value: str) -> str:
    """Return a cell that is text for a spreadsheet too."""
    shown = value if column == LINES else visible(value)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
