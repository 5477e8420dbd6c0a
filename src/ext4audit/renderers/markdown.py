"""Markdown for GitHub: a step's summary, or the text of an issue or a pull request.

The escaping must survive two passes. The parser (GitHub Flavored Markdown, spec 0.29) reads
backslashes and entities as plain characters. GitHub then searches the text for @mentions,
#references and :emoji:. An escape does not prevent that (github/cmark-gfm#181); an empty comment
does, because it splits the text, and so does a code span.

A report of several hosts begins with a table of hosts and rules, in which "?" is a rule that was
not determined. Each host then has its findings in a table, worst first, each finding with its
evidence and remedies below, and its gaps. Findings that are suppressed or in the baseline do not
alert: a table of their own has them with the reason. `-q` leaves out the sections below the
tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ext4audit.finding import Remedy, Step
from ext4audit.renderers import Audited, Page, data_files, named_hosts, visible
from ext4audit.renderers.shared import (
    PHASE_TEXT,
    counted,
    disruption_text,
    doubt_text,
    remedy_label,
)
from ext4audit.renderers.shared.commands import phases
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    INCOMPLETE,
    THE_HOST,
    Gap,
    Row,
    completeness,
    gaps,
    rows,
    severity_counts,
)
from ext4audit.report import FixedFinding, PlanAdvice, Report

UNREAD = "could not be read"
_SPLIT = "<!-- -->"
_SPECIAL = {
    "\\": "&#92;",
    "|": "&#124;",
    "`": "&#96;",
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "$": "<span>$</span>",
    "@": f"@{_SPLIT}",
    "#": f"#{_SPLIT}",
    **{char: f"\\{char}" for char in "*[]~"},
}
"""Entities where a backslash would collide with the escapes of a table. The form of `$` is that
of GitHub's documentation on mathematical expressions."""
_MARKUP = re.compile(
    r"""(?P<special>[\\|`<>&$@#*\[\]~])
      | (?P<emphasis>(?<![^\W_])_ | _(?![^\W_]))
      | (?P<colon>:(?=\S))
      | (?P<www>www(?=\.))
      | (?P<issue>GH-(?=\d))
      | (?P<block>\A(?:[-+=] | \d+(?=[.)])))""",
    re.VERBOSE | re.IGNORECASE,
)
_LEAST_FENCE = 3


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return all hosts as one Markdown text with a newline at the end."""
    named = named_hosts(hosts)
    parts = [] if len(named) == 1 else list(_overview(named, page))
    parts += _unread([(name, host) for name, host in named if host.report is None])
    for name, host in named:
        parts += [] if host.report is None else _host(name, host.report, page)
    return "\n\n".join(parts) + "\n"


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan, what was assumed, and the commands to use."""
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


def _overview(named: Sequence[tuple[str, Audited]], page: Page) -> Iterator[str]:
    """Yield the table of hosts and rules: the worst severity of each rule's active findings."""
    cells = {name: _cells(name, host.report) for name, host in named}
    codes = sorted(
        {code_ for each in cells.values() for code_, cell in each.items() if cell != "?"}
    )
    yield f"# ext4audit: {counted(len(named), 'host')}"
    lines = [
        (
            prose(name),
            _state(host, page),
            *(cells[name].get(code_, _missing(host)) for code_ in codes),
        )
        for name, host in named
    ]
    yield table(("Host", "Audit", *codes), lines)


def _cells(name: str, report: Report | None) -> dict[str, str]:
    """Return the cell of each rule that has findings on a host, or was not determined there."""
    if report is None:
        return {}
    shown = {gap.rule.code: "?" for gap in gaps(name, report) if gap.rule}
    active = [row for row in rows(name, report) if row.state == ACTIVE]
    return shown | {row.rule.code: row.finding.severity.value for row in reversed(active)}


def _missing(host: Audited) -> str:
    return "?" if host.report is None else ""


def _state(host: Audited, page: Page) -> str:
    return f"**{UNREAD}**" if host.report is None else _completeness(host.report, page)


def _completeness(report: Report, page: Page) -> str:
    state = completeness(report, page.threshold)
    return f"**{state.upper()}**" if state == INCOMPLETE else state


def _unread(named: Sequence[tuple[str, Audited]]) -> Iterator[str]:
    if named:
        yield f"## {UNREAD.capitalize()}"
        lines = [(prose(name), prose(host.error or host.label)) for name, host in named]
        yield table(("Host", "Why"), lines)


def _host(name: str, report: Report, page: Page) -> Iterator[str]:
    found = rows(name, report)
    active = [row for row in found if row.state == ACTIVE]
    yield from _head(name, report)
    yield _summary(report, active, page)
    if active:
        yield table(("Severity", "Rule", "Where", "Finding"), [_line(row) for row in active])
    if page.verbosity >= 0:
        shown: dict[tuple[Step, ...], Row] = {}
        for row in active:
            yield from finding_parts(row, shown)
        yield from _set_aside_and_fixed(report, [row for row in found if row.state != ACTIVE])
    yield from _not_determined(gaps(name, report))


def _head(name: str, report: Report) -> Iterator[str]:
    if report.source.kind == "plan":
        yield f"## Plan {prose(report.source.label)}"
        yield "It does not exist yet; it is audited as planned."
    else:
        yield f"## {'Image' if report.source.kind == 'image' else 'Host'} {prose(name)}"


def _summary(report: Report, active: Sequence[Row], page: Page) -> str:
    """Return whether the audit is complete, then how much was found."""
    aside = len(report.findings) - len(active)
    state = completeness(report, page.threshold)
    parts = [
        "**Audit INCOMPLETE**" if state == INCOMPLETE else f"Audit {state}",
        counted(len(report.host.filesystems), "filesystem"),
        severity_counts(active) or "no findings",
        *([f"{aside} suppressed or in the baseline"] if aside else []),
        *([f"policy {prose(report.policy)}"] if report.policy else []),
        *([f"knowledge {prose(data_files(report.knowledge))}"] if report.knowledge else []),
    ]
    return f"{'; '.join(parts)}."


def _line(row: Row) -> tuple[str, ...]:
    severity = row.finding.severity.value.upper()
    return severity, _rule(row), subject(row), prose(row.finding.message)


def _rule(row: Row) -> str:
    return f"{row.rule.code} {prose(row.rule.name)}"


def subject(row: Row | Gap) -> str:
    """Return the subject of a row as Markdown."""
    return THE_HOST if row.where == THE_HOST else code(row.where)


def finding_parts(row: Row, shown: dict[tuple[Step, ...], Row]) -> Iterator[str]:
    """Yield the section of a finding: the consequence, the evidence and each remedy.

    `shown` are the findings above by the steps of their remedies: those of the whole host stand
    once.
    """
    finding = row.finding
    severity = finding.severity.value.upper()
    yield f"### {severity} {_rule(row)}{doubt_text(finding)}: {subject(row)}"
    yield prose(finding.message)
    if finding.citations:
        cited = [(prose(c.label), code(c.value), code(c.origin)) for c in finding.citations]
        yield table(("Evidence", "Value", "Read from"), cited)
    for index, remedy in enumerate(finding.remedies):
        before = shown.setdefault(remedy.steps, row) if remedy.steps else row
        yield from _remedy(remedy, remedy_label(index), None if before is row else before)


def _remedy(remedy: Remedy, label: str, before: Row | None) -> Iterator[str]:
    """Yield a remedy; each phase has its own block, because people copy blocks as a whole."""
    yield f"**{label}** ({disruption_text(remedy)}): {prose(remedy.summary)}"
    if remedy.trade_off is not None:
        yield f"Trade-off: {prose(remedy.trade_off)}"
    if before is not None:
        yield f"The commands are those of {_rule(before)} ({subject(before)}) above."
    for part in () if before else phases(remedy):
        yield f"{PHASE_TEXT[part.phase].capitalize()}:"
        if part.diff:
            yield code_block(part.diff_texts, "diff")
        yield code_block(part.commands, "sh")


def _set_aside_and_fixed(report: Report, aside: Sequence[Row]) -> Iterator[str]:
    """Yield the findings that do not count, those that are fixed, and notices on the policy."""
    if aside:
        yield "### Suppressed, or in the baseline"
        yield set_aside_table(aside)
    if report.fixed:
        yield "### Fixed since the baseline"
        yield table(("Rule", "Where", "Finding"), [_gone(each) for each in report.fixed])
    if report.notices:
        yield "### Policy"
        yield "\n".join(f"- {prose(f'policy: {notice}.')}" for notice in report.notices)


def set_aside_table(aside: Sequence[Row]) -> str:
    """Return the findings that do not count, each with the reason."""
    head = ("Severity", "Rule", "Where", "Finding", "Why it does not count")
    return table(head, [_aside(row) for row in aside])


def _aside(row: Row) -> tuple[str, ...]:
    severity = row.finding.severity.value
    return severity, _rule(row), subject(row), prose(row.finding.message), prose(_why(row))


def _why(row: Row) -> str:
    accepted = row.finding.suppression
    if accepted is None:
        return "in the baseline"
    owner = f", {accepted.owner}" if accepted.owner else ""
    until = f", until {accepted.expires}" if accepted.expires else ""
    return f"suppressed: {accepted.reason}{owner}{until}"


def _gone(gone: FixedFinding) -> tuple[str, ...]:
    return prose(gone.rule), code(gone.subject), prose(gone.message)


def _not_determined(found: Sequence[Gap]) -> Iterator[str]:
    """Yield the gaps: a rule that could not be determined has not passed."""
    if found:
        head = ("Rule", "Where", "Missing evidence", "Hint")
        yield "### Not determined"
        yield table(head, [_gap(each) for each in found])


def _gap(gap: Gap) -> tuple[str, ...]:
    rule = "evidence of the host" if gap.rule is None else gap.rule.code
    return rule, subject(gap), prose(gap.text), prose(gap.hint)


def prose(text: str) -> str:
    """Return text for a paragraph, a heading or a cell."""
    return _MARKUP.sub(_plain, visible(text).strip())


def _plain(match: re.Match[str]) -> str:
    found = match.group()
    match match.lastgroup:
        case "special":
            return _SPECIAL[found]
        case "emphasis":
            return f"\\{found}"
        case "block":
            return f"&#{ord(found[0])};{found[1:]}"
        case _:
            return f"{found}{_SPLIT}"


def code(text: str) -> str:
    """Return a name as a code span; nothing for no name.

    A bar would end the cell of a table, and its escape does not work behind a backslash. A name
    with a bar is therefore shown as text.
    """
    shown = visible(text)
    if "|" in shown or not shown.strip():
        return prose(shown)
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_block(lines: Sequence[str], language: str) -> str:
    """Return lines as a fenced block; its fence is longer than any run of backticks within."""
    shown = [visible(line) for line in lines]
    longest = max(map(_longest_run, shown), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    return "\n".join((f"{fence}{language}", *shown, fence))


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    every = (head, ["---"] * len(head), *lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in every)
