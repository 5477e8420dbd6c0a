"""Markdown for GitHub: a step's summary, or the text of an issue or a pull request.

A report of several hosts begins with a table of hosts and rules, in which "?" marks an
undetermined rule. A table of findings follows, worst first, then a section for each finding with
its evidence and remedies, then the gaps. Findings that are suppressed or in the baseline do not
alert, so a separate table lists them with the reason. `-q` omits the sections below the tables.
A GitHub comment is limited to 65,536 characters, so the same finding on many filesystems or hosts
is shown once, unless `-v` requests each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ext4audit.finding import Step
from ext4audit.renderers import (
    Audited,
    Page,
    in_force,
    in_force_of,
    in_force_text,
    named_reports,
)
from ext4audit.renderers.markdown.findings import (
    finding_line,
    gap_lines,
    section,
    set_aside_table,
    subject_text,
)
from ext4audit.renderers.markdown.syntax import code_block, prose, table
from ext4audit.renderers.shared import counted
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    INCOMPLETE,
    Gap,
    Row,
    by_cause,
    completeness,
    gaps,
    rank,
    rows,
    severity_counts,
)
from ext4audit.report import PlanAdvice, Report

UNREAD = "could not be read"
_WHOLE = 2
"""Up to this number, findings with one cause have a section each, as in the text report."""


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return all hosts as one Markdown text with a final newline."""
    parts = [] if len(hosts) == 1 else list(_overview(hosts, page))
    parts += _unread([host for host in hosts if host.report is None])
    if len(hosts) > 1 and page.verbosity <= 0:
        parts += _fleet(hosts, page)
    else:
        for name, report in named_reports(hosts):
            parts += _host(name, report, page)
    return "\n\n".join(parts) + "\n"


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan, its assumptions, and the recommended commands."""
    whole = render([Audited(report.source.label, report)], page)
    return "\n\n".join((whole.rstrip("\n"), *_plan(advice))) + "\n"


def _plan(advice: PlanAdvice) -> Iterator[str]:
    if advice.assumed:
        yield "### Assumed"
        yield "\n".join(f"- {prose(each)}" for each in advice.assumed)
    yield "### Commands to use"
    if advice.changes:
        yield "\n".join(f"- {prose(each)}" for each in advice.changes)
    left = ", ".join(map(prose, advice.left)) or "nothing of low severity or worse"
    yield f"The same rules then report: {left}."
    for line in advice.lines:
        yield f"{prose(line.purpose)}:"
        yield code_block([line.command], "sh")


def _overview(hosts: Sequence[Audited], page: Page) -> Iterator[str]:
    """Yield the table of hosts and rules: the worst severity of each rule's active findings."""
    cells = {host.name: _cells(host.name, host.report) for host in hosts}
    codes = sorted(
        {code_ for each in cells.values() for code_, cell in each.items() if cell != "?"}
    )
    yield f"# ext4audit: {counted(len(hosts), 'host')}"
    lines = [
        (
            prose(host.name),
            _state(host, page),
            *(cells[host.name].get(code_, "" if host.report else "?") for code_ in codes),
        )
        for host in hosts
    ]
    yield table(("Host", "Audit", *codes), lines)


def _cells(name: str, report: Report | None) -> dict[str, str]:
    """Return the cell of each rule that has findings on a host or is undetermined there."""
    if report is None:
        return {}
    shown = {gap.rule.code: "?" for gap in gaps(name, report) if gap.rule}
    active = [row for row in rows(name, report) if row.state == ACTIVE]
    return shown | {row.rule.code: row.finding.severity.value for row in reversed(active)}


def _state(host: Audited, page: Page) -> str:
    return f"**{UNREAD}**" if host.report is None else _completeness(host.report, page)


def _completeness(report: Report, page: Page) -> str:
    state = completeness(report, page.threshold)
    return f"**{state.upper()}**" if state == INCOMPLETE else state


def _unread(hosts: Sequence[Audited]) -> Iterator[str]:
    if hosts:
        yield f"## {UNREAD.capitalize()}"
        lines = [(prose(host.name), prose(host.error or host.label)) for host in hosts]
        yield table(("Host", "Why"), lines)


def _host(name: str, report: Report, page: Page) -> Iterator[str]:
    is_image = report.source.kind == "image"
    if report.source.kind == "plan":
        yield f"## Plan {prose(report.source.label)}"
        yield "It does not exist yet; it is audited as planned."
    else:
        yield f"## {'Image' if is_image else 'Host'} {prose(name)}"
    yield _summary(report, page)
    yield from _findings([("", report)], page, {"": len(report.host.filesystems)})


def _fleet(hosts: Sequence[Audited], page: Page) -> Iterator[str]:
    """Yield the findings and gaps of several hosts by cause; the tables name the hosts."""
    read = named_reports(hosts)
    text = in_force_text(in_force(hosts))
    if text:
        yield f"In force: {prose(text.removeprefix('; '))}."
    if any(report.findings for _, report in read):
        yield "## Findings"
    totals = {host.name: 0 for host in hosts} | {n: len(each.host.filesystems) for n, each in read}
    yield from _findings(read, page, totals)


def _findings(
    read: Sequence[tuple[str, Report]], page: Page, totals: Mapping[str, int]
) -> Iterator[str]:
    """Yield the findings, then the gaps; the rows of a single host have an empty host name.

    `totals` has the number of filesystems by host.
    """
    found = sorted((row for each in read for row in rows(*each)), key=rank)
    most = len(found) if page.verbosity > 0 else _WHOLE
    groups = by_cause([row for row in found if row.state == ACTIVE], most, across_hosts=True)
    if groups:
        yield table(("Severity", "Rule", "Where", "Finding"), list(map(finding_line, groups)))
    if page.verbosity >= 0:
        shown: dict[tuple[Step, ...], Row] = {}
        for group in groups:
            yield from section(group, totals, shown)
        aside = [row for row in found if row.state != ACTIVE]
        yield from _set_aside_and_fixed(read, by_cause(aside, most, across_hosts=True))
    missing = [gap for each in read for gap in gaps(*each)]
    yield from _not_determined(missing, len(missing) if page.verbosity > 0 else _WHOLE)


def _summary(report: Report, page: Page) -> str:
    """Return whether the audit is complete, and the numbers of filesystems and findings."""
    active = [row for row in rows("", report) if row.state == ACTIVE]
    aside = len(report.findings) - len(active)
    state = completeness(report, page.threshold)
    parts = [
        "**Audit INCOMPLETE**" if state == INCOMPLETE else f"Audit {state}",
        counted(len(report.host.filesystems), "filesystem"),
        severity_counts(active) or "no findings",
        *([f"{aside} suppressed or in the baseline"] if aside else []),
        *(
            f"{what} {prose(names)}"
            for what, names in in_force_of(report.policy, report.knowledge).items()
        ),
    ]
    return f"{'; '.join(parts)}."


def _set_aside_and_fixed(
    read: Sequence[tuple[str, Report]], aside: Sequence[Sequence[Row]]
) -> Iterator[str]:
    """Yield the findings that do not count, the fixed ones, and notices on the policy."""
    if aside:
        yield "### Suppressed, or in the baseline"
        yield set_aside_table(aside)
    fixed = [
        (prose(each.rule), subject_text(name, each.subject), prose(each.message))
        for name, report in read
        for each in report.fixed or ()
    ]
    if fixed:
        yield "### Fixed since the baseline"
        yield table(("Rule", "Where", "Finding"), fixed)
    notices = [prose(f"policy: {each}.") for _, report in read for each in report.notices]
    if notices:
        yield "### Policy"
        yield "\n".join(f"- {each}" for each in notices)


def _not_determined(found: Sequence[Gap], most: int) -> Iterator[str]:
    """Yield the gaps: a rule that could not be determined has not passed."""
    if found:
        head = ("Rule", "Where", "Missing evidence", "Hint")
        yield "### Not determined"
        yield table(head, gap_lines(found, most))
