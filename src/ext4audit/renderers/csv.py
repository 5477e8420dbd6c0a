"""CSV (RFC 4180): a row for each finding, and for each rule that could not be determined.

The column `kind` is the type of the row. `finding` is a finding. `fixed` is a baseline finding
that no longer occurs. `undetermined` is a rule that lacks evidence or, if there is no rule, a gap
of the host. `error` is a rule that raised an exception. `unread` is a host without a report, and
`clean` a host without other rows, so every host has a row. `plan` is a command that a plan
recommends. The column `state` shows which findings count; the others have rows too.

`commands` has the commands of the safest remedy, without rollback, as one shell line that stops
at the first failure. No cell contains a newline.

Spreadsheets evaluate a cell that begins like a formula, even if it is quoted. An apostrophe is
prepended to such a cell (OWASP, "CSV Injection").
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from ext4audit.facts.host import Filesystem
from ext4audit.renderers import (
    Audited,
    Page,
    in_force,
    visible,
)
from ext4audit.renderers.shared import disruption_text
from ext4audit.renderers.shared.commands import chain_of
from ext4audit.renderers.shared.rows import (
    THE_HOST,
    Gap,
    Row,
    first_mount_point,
    fixed_findings,
    gaps,
    rows,
)
from ext4audit.report import FixedFinding, PlanAdvice, Report

COLUMNS = (
    *("host", "kind", "rule", "name", "severity", "confidence", "state"),
    *("device", "mount_point", "uuid", "fact", "message", "evidence", "remedy", "disruption"),
    *("commands", "hint", "reason", "owner", "expires", "source", "policy", "knowledge"),
)
_OF_RUN = ("host", "source", "policy", "knowledge")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of formulas; some editions of Excel also accept the last four (full-width)."""


def render(hosts: Sequence[Audited], page: Page) -> str:  # noqa: ARG001 - common signature
    """Return the header and the rows, each terminated by CR LF."""
    return _text(_of_hosts(hosts))


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:  # noqa: ARG001 - as above
    """Return the rows of a plan's report, and a row for each recommended command."""
    found = list(_of_hosts([Audited(report.source.label, report)]))
    same = {column: found[0].get(column, "") for column in _OF_RUN}
    for line in advice.lines:
        cells = {"kind": "plan", "name": line.key, "message": line.purpose}
        found.append({**same, **cells, "commands": line.command})
    return _text(found)


def _text(found: Iterable[dict[str, str]]) -> str:
    output = StringIO()
    writer = csv.DictWriter(output, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for cells in found:
        writer.writerow({column: _safe(value) for column, value in cells.items()})
    return output.getvalue()


def _of_hosts(hosts: Sequence[Audited]) -> Iterator[dict[str, str]]:
    run = in_force(hosts)
    for host in hosts:
        for cells in _of_host(host):
            yield {"host": host.name, **cells, "source": host.label, **run}


def _of_host(host: Audited) -> Iterator[dict[str, str]]:
    if host.report is None:
        yield {"kind": "unread", "message": host.error or ""}
        return
    cells = [*_of_report(host.name, host.report)]
    yield from cells or [{"kind": "clean"}]


def _of_report(name: str, report: Report) -> Iterator[dict[str, str]]:
    yield from (_finding(row) for row in rows(name, report))
    yield from (_gap(gap) for gap in gaps(name, report))
    yield from (_fixed(gone, fs) for gone, fs in fixed_findings(report))


def _finding(row: Row) -> dict[str, str]:
    finding = row.finding
    cited = [f"{c.label}: {c.value} ({c.origin})" for c in finding.citations]
    unmounted = {"device": finding.device, "mount_point": finding.mount_point}
    return {
        "kind": "finding",
        "rule": row.rule.code,
        "name": row.rule.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "state": row.state,
        **(_subject(row.about) or unmounted),
        "fact": finding.numbered_fact,
        "message": finding.message,
        "evidence": "; ".join(cited),
        **_remedy(row),
        **_suppression(row),
    }


def _fixed(gone: FixedFinding, fs: Filesystem | None) -> dict[str, str]:
    """Return the row of a fixed finding; the baseline names a filesystem that is gone too."""
    subject = {} if gone.subject == THE_HOST else {"device": gone.subject}
    return {
        "kind": "fixed",
        "rule": gone.rule,
        **(_subject(fs) or subject),
        "fact": gone.fact,
        "message": gone.message,
    }


def _subject(fs: Filesystem | None) -> dict[str, str]:
    if fs is None:
        return {}
    return {"device": fs.device, "mount_point": first_mount_point(fs), "uuid": fs.uuid or ""}


def _remedy(row: Row) -> dict[str, str]:
    remedy = row.finding.main_remedy
    if remedy is None:
        return {}
    return {
        "remedy": remedy.summary,
        "disruption": disruption_text(remedy),
        "commands": " ".join(chain_of(remedy.steps)),
    }


def _suppression(row: Row) -> dict[str, str]:
    accepted = row.finding.suppression
    if accepted is None:
        return {}
    return {
        "reason": accepted.reason,
        "owner": accepted.owner or "",
        "expires": accepted.expires or "",
    }


def _gap(gap: Gap) -> dict[str, str]:
    return {
        "kind": "undetermined" if gap.error is None else "error",
        "rule": gap.rule.code if gap.rule else "",
        "name": gap.rule.name if gap.rule else "",
        **_subject(gap.filesystem),
        "message": gap.text,
        "hint": gap.hint,
    }


def _safe(value: str) -> str:
    """Return a cell that a spreadsheet displays as one line of text."""
    shown = visible(value)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
