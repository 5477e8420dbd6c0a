"""Markdown as GitHub shows it: a step's summary, the text of an issue or a pull request.

Many hosts begin with a table of hosts and rules, in which "?" is what was not determined. Each
host then has its findings in a table, worst first, each with its evidence and remedies below,
and what could not be determined. Findings that are suppressed or in the baseline do not alert:
they stand in a table of their own, with the reason. `-q` leaves the sections below the tables
out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ext4audit.finding import Severity
from ext4audit.renderers.markdown_findings import finding_parts, set_aside_table, subject
from ext4audit.renderers.markdown_text import code, prose, table
from ext4audit.renderers.page import Audited, Page
from ext4audit.renderers.rows import ACTIVE, Blind, Row, blind_spots, host_names, rows
from ext4audit.renderers.words import counted
from ext4audit.report import GoneFinding, Report

UNREAD = "could not be read"


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return all hosts as one Markdown text with a newline at the end."""
    named = list(zip(host_names(hosts), hosts, strict=True))
    parts = [] if len(named) == 1 else list(_overview(named))
    parts += _unread([(name, host) for name, host in named if host.report is None])
    for name, host in named:
        parts += [] if host.report is None else _host(name, host.report, page)
    return "\n\n".join(parts) + "\n"


def _overview(named: Sequence[tuple[str, Audited]]) -> Iterator[str]:
    """Show hosts by rules: the worst severity of each rule's findings that count."""
    cells = {name: _cells(name, host.report) for name, host in named}
    codes = sorted(
        {code_ for each in cells.values() for code_, cell in each.items() if cell != "?"}
    )
    yield f"# ext4audit: {counted(len(named), 'host')}"
    lines = [
        (prose(name), _state(host), *(cells[name].get(code_, _missing(host)) for code_ in codes))
        for name, host in named
    ]
    yield table(("Host", "Audit", *codes), lines)


def _cells(name: str, report: Report | None) -> dict[str, str]:
    """Return what a host shows of each rule that found something, or could not look."""
    if report is None:
        return {}
    shown = {blind.rule.code: "?" for blind in blind_spots(name, report) if blind.rule}
    active = [row for row in rows(name, report) if row.state == ACTIVE]
    return shown | {row.rule.code: row.finding.severity.value for row in reversed(active)}


def _missing(host: Audited) -> str:
    return "?" if host.report is None else ""


def _state(host: Audited) -> str:
    if host.report is None:
        return f"**{UNREAD}**"
    return "complete" if host.report.complete else "**INCOMPLETE**"


def _unread(named: Sequence[tuple[str, Audited]]) -> Iterator[str]:
    if named:
        yield f"## {UNREAD.capitalize()}"
        lines = [(prose(name), prose(host.error or host.label)) for name, host in named]
        yield table(("Host", "Why"), lines)


def _host(name: str, report: Report, page: Page) -> Iterator[str]:
    found = rows(name, report)
    active = [row for row in found if row.state == ACTIVE]
    if report.source.kind == "plan":
        yield f"## Plan {prose(report.source.label)}"
        yield "Judged as if it ran: nothing of it exists yet."
    else:
        yield f"## {'Image' if report.source.kind == 'image' else 'Host'} {prose(name)}"
    yield _summary(report, active)
    if active:
        yield table(("Severity", "Rule", "Where", "Finding"), [_line(row) for row in active])
    if page.verbosity >= 0:
        for row in active:
            yield from finding_parts(row)
        yield from _rest(report, [row for row in found if row.state != ACTIVE])
    yield from _not_determined(blind_spots(name, report))


def _summary(report: Report, active: Sequence[Row]) -> str:
    """Say how much was found, and first of all whether that is all."""
    severities = Counter(row.finding.severity for row in active)
    said = ", ".join(f"{severities[s]} {s.value}" for s in Severity if severities[s])
    aside = len(report.findings) - len(active)
    words = [
        "Audit complete" if report.complete else "**Audit INCOMPLETE**",
        counted(len(report.host.filesystems), "filesystem"),
        said or "no findings",
        *([f"{aside} suppressed or in the baseline"] if aside else []),
    ]
    return f"{'; '.join(words)}."


def _line(row: Row) -> tuple[str, ...]:
    finding = row.finding
    rule = f"{row.rule.code} {prose(row.rule.name)}"
    return finding.severity.value.upper(), rule, subject(row), prose(finding.message)


def _rest(report: Report, aside: Sequence[Row]) -> Iterator[str]:
    """Show what does not count, what is fixed, and what the policy file must be told of."""
    if aside:
        yield "### Suppressed, or in the baseline"
        yield set_aside_table(aside)
    if report.fixed:
        yield "### Fixed since the baseline"
        yield table(("Rule", "Where", "Finding"), [_gone(each) for each in report.fixed])
    if report.notices:
        yield "### Policy"
        yield "\n".join(f"- {prose(f'policy: {notice}.')}" for notice in report.notices)


def _gone(gone: GoneFinding) -> tuple[str, ...]:
    return prose(gone.rule), code(gone.subject), prose(gone.message)


def _not_determined(blind: Sequence[Blind]) -> Iterator[str]:
    """Show what nobody could judge: it is no pass."""
    if blind:
        yield "### Not determined"
        yield table(
            ("Rule", "Where", "What is not known", "To know it"), [_hole(each) for each in blind]
        )


def _hole(blind: Blind) -> tuple[str, ...]:
    rule = "view of the host" if blind.rule is None else blind.rule.code
    return rule, subject(blind), prose(blind.words), prose(blind.hint)
