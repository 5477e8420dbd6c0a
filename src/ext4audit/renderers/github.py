"""GitHub Actions: workflow commands that annotate a run, and one summary line for its log.

An annotation is an alert, so findings that are suppressed or in the baseline get none. The step
summary, in the Markdown format, lists all findings; annotations mention it if there is one.
GitHub shows ten annotations for each level and step (docs: workflow commands). If a level has
more, findings on a host with the same cause share an annotation. The output has the worst ones,
each rule once before any repeats, then a notice with the number of the other findings. All gaps
are one warning, and all unreadable hosts are one error, so that they neither displace findings
nor are displaced.

The runner executes a line that begins with "::" after blanks, and a line that contains "##["
anywhere (actions/runner, ActionCommand.cs). Text from a host cannot trigger either: fixed text
precedes it, and "##[" is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ext4audit.finding import Severity, listed
from ext4audit.renderers import (
    Audited,
    Page,
    fixed_count,
    in_force,
    in_force_text,
    named_reports,
    visible,
)
from ext4audit.renderers.shared import counted
from ext4audit.renderers.shared.rows import (
    ACTIVE,
    INCOMPLETE,
    Location,
    Row,
    by_cause,
    by_urgency,
    completeness,
    count_text,
    location_of,
    message_of,
    rows,
    severity_counts,
)
from ext4audit.report import PlanAdvice, Report

ERROR, WARNING, NOTICE = "error", "warning", "notice"
LEVELS: Mapping[Severity, str] = {
    Severity.CRITICAL: ERROR,
    Severity.HIGH: ERROR,
    Severity.MEDIUM: WARNING,
    Severity.LOW: NOTICE,
    Severity.INFO: NOTICE,
}
SHOWN = 10
"""Annotations that GitHub shows for each level of a step."""
LONGEST_TITLE = 255
"""GitHub's limit for a title, in characters (docs: REST API, check runs, annotations)."""
_HOSTS_SHOWN = 5
_SUBJECTS_SHOWN = 20


class _Note(NamedTuple):
    """An annotation; `location` is where the evidence is in a folder of hosts.

    `findings` is the number of findings that the annotation covers.
    """

    level: str
    title: str
    lines: tuple[str, ...]
    location: Location | None = None
    findings: int = 1


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the workflow commands and the summary line, each terminated by a newline."""
    reports = dict(named_reports(hosts))
    found = by_urgency(
        row for each in reports.items() for row in rows(*each) if row.state == ACTIVE
    )
    notes = [
        *_incomplete(hosts, page),
        *(_note(each, reports[each[0].host]) for each in _joined(found)),
    ]
    lines = [_command(note) for note in _shown(notes, page)]
    return "".join(f"{line}\n" for line in (*lines, _summary(hosts, found, page)))


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the workflow commands for a plan; one notice has the recommended commands."""
    lines = tuple(f"{line.purpose}: {line.command}" for line in advice.lines)
    notice = _command(_Note(NOTICE, "commands to use", lines))
    return f"{notice}\n{render([Audited(report.source.label, report)], page)}"


def _incomplete(hosts: Sequence[Audited], page: Page) -> Iterator[_Note]:
    """Yield an error for the hosts that could not be read and a warning for incomplete reports."""
    unread = [f"{host.name} ({host.error})" for host in hosts if host.report is None]
    if unread:
        number = counted(len(unread), "host")
        yield _Note(ERROR, f"{number} could not be read", (listed(unread, _HOSTS_SHOWN),))
    states = {h.name: completeness(h.report, page.threshold) for h in hosts if h.report}
    partly = [name for name, state in states.items() if state == INCOMPLETE]
    if partly:
        what = f"The audit is incomplete on {listed(partly, _HOSTS_SHOWN)}"
        where = "the step summary" if page.has_summary else "-f text"
        yield _Note(WARNING, "audit incomplete", (f"{what}: see {where} for the reasons.",))


def _joined(found: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    """Yield the rows of each level, grouped by cause if there are more than GitHub shows."""
    for level in (ERROR, WARNING, NOTICE):
        same = [row for row in found if LEVELS[row.finding.severity] == level]
        yield from by_cause(same, 1 if len(same) > SHOWN else SHOWN)


def _note(group: Sequence[Row], report: Report) -> _Note:
    row = group[0]
    finding, remedy = row.finding, row.finding.main_remedy
    number = count_text(group, len(report.host.filesystems))
    names = listed([*dict.fromkeys(each.where for each in group)], _SUBJECTS_SHOWN)
    lines = (
        f"{finding.severity.value.upper()}: {message_of(group)}",
        *((f"On {names}",) if number else ()),
        *((f"Remedy: {remedy.summary}",) if remedy else ()),
    )
    title = f"{row.rule.title} on {row.host}, {number or row.where}"
    return _Note(LEVELS[finding.severity], title, lines, location_of(row, report), len(group))


def _shown(notes: Sequence[_Note], page: Page) -> Iterator[_Note]:
    """Yield the first notes of each level, and a notice that counts the omitted findings."""
    by_level = {level: [n for n in notes if n.level == level] for level in (ERROR, WARNING, NOTICE)}
    if all(len(each) <= SHOWN for each in by_level.values()):
        yield from chain.from_iterable(by_level.values())
        return
    room = {ERROR: SHOWN, WARNING: SHOWN, NOTICE: SHOWN - 1}
    kept = [note for level, each in by_level.items() for note in each[: room[level]]]
    yield from kept
    left = sum(note.findings for note in notes) - sum(note.findings for note in kept)
    more = f"{left} more findings"
    place = "are in the step summary" if page.has_summary else "are not shown: use -f text"
    yield _Note(NOTICE, "more findings", (f"{more} {place}.",))


def _command(note: _Note) -> str:
    title = f"title={_property(_safe(note.title)[:LONGEST_TITLE])}"
    at = note.location
    location = f"file={_property(_safe(at.path))},line={at.line}," if at else ""
    message = "\n".join(_safe(line) for line in note.lines)
    return f"::{note.level} {location}{title}::{_data(message)}"


def _safe(text: str) -> str:
    """Return text as one line that contains no old-style workflow command."""
    return visible(text).replace("##[", r"##\x5b")


def _data(text: str) -> str:
    """Escape text as the Actions toolkit does (packages/core/src/command.ts)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _summary(hosts: Sequence[Audited], found: Sequence[Row], page: Page) -> str:
    reports = [host.report for host in hosts]
    states = [completeness(r, page.threshold) if r else INCOMPLETE for r in reports]
    incomplete = states.count(INCOMPLETE)
    state = (
        f"INCOMPLETE on {incomplete}" if incomplete else max(states, default="complete", key=len)
    )
    gone = fixed_count(hosts)
    fixed = "" if gone is None else f"; {gone} fixed since the baseline"
    findings = severity_counts(found) or "no findings"
    end = _safe(in_force_text(in_force(hosts)))
    return f"ext4audit: {counted(len(hosts), 'host')}: {findings}{fixed}; audit {state}{end}"
