"""Markdown as GitHub shows it: a step's summary, the text of an issue or a pull request.

Two passes must be got past. The parser (GitHub Flavored Markdown, spec 0.29) takes backslashes
and entities for plain characters. After it, GitHub looks through the text itself for @mentions,
#references and :emoji:, which an escape does not stop (github/cmark-gfm#181): an empty comment
does, because it splits the text, and so does a code span.

Many hosts begin with a table of hosts and rules, in which "?" is what was not determined. Each
host then has its findings in a table, worst first, each with its evidence and remedies below,
and what could not be determined. Findings that are suppressed or in the baseline do not alert:
they stand in a table of their own, with the reason. `-q` leaves the sections below the tables
out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from ext4audit.finding import Confidence, Phase, Remedy, Severity, Step
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    THE_HOST,
    Blind,
    Row,
    blind_spots,
    host_names,
    rows,
)
from ext4audit.renderers.shared.words import PHASE_WORDS, counted, disruption_words
from ext4audit.report import FixedFinding, Report

_APART = "<!-- -->"
_SPECIAL = {
    "\\": "&#92;",
    "|": "&#124;",
    "`": "&#96;",
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "$": "<span>$</span>",
    "@": f"@{_APART}",
    "#": f"#{_APART}",
    **{char: f"\\{char}" for char in "*[]~"},
}
"""Entities where a backslash would meet the table's own escapes; `$` as GitHub's page on
mathematical expressions has it."""
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


def prose(text: str) -> str:
    """Return text that stands in a paragraph, a heading or a cell."""
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
            return f"{found}{_APART}"


def code(text: str) -> str:
    """Return a name as a code span; nothing for no name.

    A bar would end the cell of a table, and its escape is not one behind a backslash: such a
    name is shown as text.
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


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def finding_parts(row: Row) -> Iterator[str]:
    """Yield the section of a finding: the consequence, the evidence, and each way to cure it."""
    finding = row.finding
    sure = finding.confidence is Confidence.CONFIRMED
    doubt = "" if sure else f" ({finding.confidence.value})"
    severity = finding.severity.value.upper()
    title = f"{row.rule.code} {prose(row.rule.name)}{doubt}: {subject(row)}"
    yield f"### {severity} {title}"
    yield prose(finding.message)
    if finding.citations:
        cited = [(prose(c.label), code(c.value), code(c.origin)) for c in finding.citations]
        yield table(("Evidence", "Value", "Read from"), cited)
    for number, remedy in enumerate(finding.remedies):
        yield from _remedy(remedy, "Remedy" if number == 0 else "Or")


def subject(row: Row | Blind) -> str:
    """Return what a row is about."""
    return THE_HOST if row.filesystem is None else code(row.where)


def _remedy(remedy: Remedy, label: str) -> Iterator[str]:
    """Yield a remedy; what undoes it has a block of its own, because blocks are copied whole."""
    yield f"**{label}** ({disruption_words(remedy)}): {prose(remedy.summary)}"
    undo = [step for step in remedy.steps if step.phase is Phase.ROLLBACK]
    cure = [step for step in remedy.steps if step.phase is not Phase.ROLLBACK]
    if cure:
        yield code_block(list(_commands(cure)), "sh")
    if remedy.trade_off is not None:
        yield f"Trade-off: {prose(remedy.trade_off)}"
    if undo:
        yield "To undo it:"
        yield code_block([step.command for step in undo], "sh")


def _commands(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the commands in their order; a later one may need an earlier."""
    for phase, same in groupby(steps, key=lambda step: step.phase):
        yield f"# {PHASE_WORDS[phase]}"
        yield from (step.command for step in same)


def set_aside_table(aside: Sequence[Row]) -> str:
    """Return the findings that do not count, each with the reason."""
    head = ("Severity", "Rule", "Where", "Finding", "Why it does not count")
    return table(head, [_aside(row) for row in aside])


def _aside(row: Row) -> tuple[str, ...]:
    finding = row.finding
    rule = f"{row.rule.code} {prose(row.rule.name)}"
    return finding.severity.value, rule, subject(row), prose(finding.message), prose(_why(row))


def _why(row: Row) -> str:
    said = row.finding.suppression
    if said is None:
        return "in the baseline"
    owner = f", {said.owner}" if said.owner else ""
    until = f", until {said.expires}" if said.expires else ""
    return f"suppressed: {said.reason}{owner}{until}"


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


def _gone(gone: FixedFinding) -> tuple[str, ...]:
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
