"""Findings and gaps in Markdown: the rows of the tables, and a section for each finding.

The same finding on more than two filesystems, of one host or several, gets one row and one section
with the evidence and remedies of one filesystem as an example. `-v` shows those of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ext4audit.finding import Remedy, Step, listed
from ext4audit.renderers.markdown.syntax import code, code_block, prose, table
from ext4audit.renderers.shared import (
    PHASE_TEXT,
    counted,
    disruption_text,
    doubt_text,
    remedy_label,
)
from ext4audit.renderers.shared.commands import phases
from ext4audit.renderers.shared.rows import THE_HOST, Gap, Row, count_text, message_of, text_of

_MOST = 50
"""Maximum subjects in a cell, and rows of the table of differences of findings with one cause."""
Group = Sequence[Row]
"""Rows with the same cause, or a single row."""


def finding_line(group: Group) -> tuple[str, ...]:
    """Return the table cells of a group: severity, rule, subjects and message."""
    first = group[0]
    severity = first.finding.severity.value.upper()
    return severity, _rule(first), _subjects(group), prose(message_of(group))


def _rule(row: Row) -> str:
    return f"{row.rule.code} {prose(row.rule.name)}"


def _subjects(found: Sequence[Row | Gap]) -> str:
    """Return the first subjects; those of a named host are only counted if it has several.

    A Kubernetes node has hundreds of filesystems with names of 150 characters.
    """
    by_host: dict[str, dict[str, None]] = {}
    for each in found:
        by_host.setdefault(each.host, {})[_subject(each)] = None
    parts: list[str] = []
    for host, names in by_host.items():
        parts += [f"{prose(host)} ({len(names)} places)"] if host and len(names) > 1 else names
    return listed(parts, _MOST)


def _subject(row: Row | Gap) -> str:
    return subject_text(row.host, row.where)


def subject_text(host: str, where: str) -> str:
    """Return a subject, preceded by the name of its host if there are several hosts."""
    if where == THE_HOST:
        return prose(host) or THE_HOST
    return f"{prose(host)} {code(where)}" if host else code(where)


def section(
    group: Group, totals: Mapping[str, int], shown: dict[tuple[Step, ...], Row]
) -> Iterator[str]:
    """Yield the section of a group: the consequence, the evidence and each remedy.

    `totals` has the number of filesystems by host. `shown` maps the steps of remedies to the
    finding above that shows them, so that steps for the whole host appear once.
    """
    example = min(group, key=_is_worse_example)
    finding = example.finding
    severity = finding.severity.value.upper()
    where = _count(group, totals) or _subject(example)
    yield f"### {severity} {_rule(example)}{doubt_text(finding)}: {where}"
    yield prose(message_of(group))
    if len(group) > 1:
        yield from _differences(group)
        yield f"{_subject(example)} as an example (`-v` shows each):"
    if finding.citations:
        cited = [(prose(c.label), code(c.value), code(c.origin)) for c in finding.citations]
        yield table(("Evidence", "Value", "Read from"), cited)
    for index, remedy in enumerate(finding.remedies):
        before = shown.setdefault(remedy.steps, example) if remedy.steps else example
        yield from _remedy(remedy, remedy_label(index), None if before is example else before)
    yield from _other_commands(group, example)


def _count(group: Group, totals: Mapping[str, int]) -> str:
    hosts = {row.host for row in group}
    several = f"{len(hosts)} of {counted(len(totals), 'host')}"
    return several if len(hosts) > 1 else count_text(group, totals[group[0].host])


def _is_worse_example(row: Row) -> tuple[bool, bool]:
    """Return a sort key that prefers, as an example, a remedy that can be run."""
    remedy = row.finding.main_remedy
    return remedy is None or not remedy.steps, remedy is not None and remedy.destructive


def _differences(group: Group) -> Iterator[str]:
    """Yield a table of the messages and remedies in which findings with one cause differ."""
    columns = [("Where", [_subject(row) for row in group])]
    columns += [("Finding", [prose(row.finding.message) for row in group])]
    columns += [("Remedy", [_main_remedy(row) for row in group])]
    differ = [columns[0], *(each for each in columns[1:] if len(set(each[1])) > 1)]
    if len(differ) > 1:
        lines = [*dict.fromkeys(zip(*(cells for _, cells in differ), strict=True))]
        yield table([head for head, _ in differ], lines[:_MOST])
        if len(lines) > _MOST:
            yield f"{len(lines) - _MOST} more: `-v`"


def _main_remedy(row: Row) -> str:
    remedy = row.finding.main_remedy
    return "none" if remedy is None else prose(remedy.summary)


def _other_commands(group: Group, example: Row) -> Iterator[str]:
    """Yield a note on where to find the commands that the example does not have."""
    own = _steps(example)
    number = sum(bool(_steps(row) - own) for row in group)
    if number:
        yield f"Commands for {number} more: `-v`, or as a script `ext4audit fix`."


def _steps(row: Row) -> set[tuple[Step, ...]]:
    return {remedy.steps for remedy in row.finding.remedies if remedy.steps}


def _remedy(remedy: Remedy, label: str, before: Row | None) -> Iterator[str]:
    """Yield a remedy with one block for each phase, because people copy blocks as a whole."""
    yield f"**{label}** ({disruption_text(remedy)}): {prose(remedy.summary)}"
    if remedy.trade_off is not None:
        yield f"Trade-off: {prose(remedy.trade_off)}"
    if before is not None:
        yield f"The commands are those of {_rule(before)} ({_subject(before)}) above."
    for part in () if before else phases(remedy):
        yield f"{PHASE_TEXT[part.phase].capitalize()}:"
        if part.diff:
            yield code_block(part.diff_texts, "diff")
        yield code_block(part.commands, "sh")


def set_aside_table(aside: Iterable[Group]) -> str:
    """Return a table of the findings that do not count, each with the reason."""
    head = ("Severity", "Rule", "Where", "Finding", "Why it does not count")
    return table(head, [_aside(group) for group in aside])


def _aside(group: Group) -> tuple[str, ...]:
    severity, *cells = finding_line(group)
    return severity.lower(), *cells, prose(_why(group[0]))


def _why(row: Row) -> str:
    accepted = row.finding.suppression
    if accepted is None:
        return "in the baseline"
    owner = f", {accepted.owner}" if accepted.owner else ""
    until = f", until {accepted.expires}" if accepted.expires else ""
    return f"suppressed: {accepted.reason}{owner}{until}"


def gap_lines(found: Sequence[Gap], most: int) -> list[tuple[str, ...]]:
    """Return the table cells of gaps: rules, subjects, missing evidence and hint.

    If more than `most` gaps have the same cause, those of one rule share a row, and so do rules
    that lack the evidence on the same filesystems.
    """
    times = Counter((gap.cause, gap.hint) for gap in found)
    by_rule: dict[tuple[str, str, str, int], list[Gap]] = {}
    for gap in found:
        own = 0 if times[gap.cause, gap.hint] > most else id(gap)
        rule = "evidence of the host" if gap.rule is None else gap.rule.code
        by_rule.setdefault((gap.cause, gap.hint, rule, own), []).append(gap)
    lines: dict[tuple[str, str, str, int], list[str]] = {}
    for (cause, hint, rule, own), same in by_rule.items():
        lines.setdefault((_subjects(same), text_of(same, cause), hint, own), []).append(rule)
    return [
        (", ".join(rules), where, prose(text), prose(hint))
        for (where, text, hint, _), rules in lines.items()
    ]
