"""Markdown as GitHub shows it: a step's summary, the text of an issue or a pull request.

Many hosts begin with a table of hosts and rules. Each host then has its findings in a table,
worst first, each with its evidence and remedies below, and what could not be determined.
Findings that are suppressed or in the baseline do not alert: they stand in a table of their
own, with the reason. `-q` leaves the sections of the hosts out, except for their tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ext4audit.finding import Severity
from ext4audit.renderers.markdown_findings import finding_parts, set_aside_table
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
    for name, host in named:
        parts += _unread(name, host) if host.report is None else _host(name, host.report, page)
    return "\n\n".join(parts) + "\n"


def _overview(named: Sequence[tuple[str, Audited]]) -> Iterator[str]:
    """Show hosts by rules: the worst severity of each rule's findings that count."""
    found = {name: _active(name, host.report) for name, host in named}
    codes = sorted({row.rule.code for each in found.values() for row in each})
    yield f"# ext4audit: {counted(len(named), 'host')}"
    lines = [
        (prose(name), _state(host), *(_worst(found[name], code_) for code_ in codes))
        for name, host in named
    ]
    yield table(("Host", "Audit", *codes), lines)


def _active(name: str, report: Report | None) -> list[Row]:
    return [] if report is None else [row for row in rows(name, report) if row.state == ACTIVE]


def _state(host: Audited) -> str:
    if host.report is None:
        return f"**{UNREAD}**"
    return "complete" if host.report.complete else "**INCOMPLETE**"


def _worst(found: Sequence[Row], code_: str) -> str:
    """Return the worst severity of a rule; rows are sorted, and an empty cell is no pass."""
    return next((row.finding.severity.value for row in found if row.rule.code == code_), "")


def _unread(name: str, host: Audited) -> Iterator[str]:
    yield f"## {prose(name)}"
    yield f"**{UNREAD.capitalize()}:** {prose(host.error or host.label)}"


def _host(name: str, report: Report, page: Page) -> Iterator[str]:
    found = rows(name, report)
    active = [row for row in found if row.state == ACTIVE]
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
    return finding.severity.value.upper(), rule, code(row.where), prose(finding.message)


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
    return rule, code(blind.where), prose(blind.words), prose(blind.hint)
