"""GitHub Actions: workflow commands that annotate a run, and one line for its log.

An annotation is an alert: findings that are suppressed or in the baseline have none. They are
in the step's summary, which is the Markdown format and has everything. GitHub shows ten
annotations a level and step (docs: workflow commands), so the worst are written, then a notice
of how many there are more. What could not be determined is one warning, hosts that could not
be read are one error: blind spots must not push findings out, nor be pushed out.

The runner takes a line that begins with "::", spaces aside, for a command, and one that has
"##[" anywhere (actions/runner, ActionCommand.cs). No text of a host gets so far: it stands
behind words of ours, and "##[" is broken up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ext4audit.finding import Severity
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.places import Place, place_of
from ext4audit.renderers.shared.rows import ACTIVE, Row, host_names, rank, rows
from ext4audit.renderers.shared.words import counted, listed
from ext4audit.report import Report

ERROR, WARNING, NOTICE = "error", "warning", "notice"
LEVELS = {
    Severity.CRITICAL: ERROR,
    Severity.HIGH: ERROR,
    Severity.MEDIUM: WARNING,
    Severity.LOW: NOTICE,
    Severity.INFO: NOTICE,
}
SHOWN = 10
"""Annotations that GitHub shows for each level of a step."""
LONGEST_TITLE = 255
"""Characters of a title that GitHub takes (docs: REST API, check runs, annotations)."""
_HOSTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Note:
    """An annotation; `place` is where in a folder of hosts the evidence lies."""

    level: str
    title: str
    lines: tuple[str, ...]
    place: Place | None = None


def render(hosts: Sequence[Audited], page: Page) -> str:  # noqa: ARG001 - as every renderer
    """Return the commands and the log's line, each ended by a newline."""
    named = list(zip(host_names(hosts), hosts, strict=True))
    reports = {name: host.report for name, host in named if host.report is not None}
    found = sorted(
        (row for each in reports.items() for row in rows(*each) if row.state == ACTIVE), key=rank
    )
    notes = [*_unseen(named), *(_note(row, reports[row.host]) for row in found)]
    lines = [_command(note) for note in _shown(notes)]
    return "".join(f"{line}\n" for line in (*lines, _sum(named, found)))


def _unseen(named: Sequence[tuple[str, Audited]]) -> Iterator[_Note]:
    """Yield an error of the hosts that could not be read, a warning of those seen in part."""
    unread = [f"{name} ({host.error})" for name, host in named if host.report is None]
    if unread:
        number = counted(len(unread), "host")
        yield _Note(ERROR, f"{number} could not be read", (listed(unread, _HOSTS_SHOWN),))
    partly = [name for name, host in named if host.report and not host.report.complete]
    if partly:
        what = f"The audit is incomplete on {listed(partly, _HOSTS_SHOWN)}: the summary says why."
        yield _Note(WARNING, "audit incomplete", (what,))


def _note(row: Row, report: Report) -> _Note:
    finding = row.finding
    title = f"{row.rule.code} {row.rule.name} on {row.host}, {row.where}"
    lines = (
        f"{finding.severity.value.upper()}: {finding.message}",
        *(f"Remedy: {remedy.summary}" for remedy in finding.remedies[:1]),
    )
    return _Note(LEVELS[finding.severity], title, lines, place_of(row, report))


def _shown(notes: Sequence[_Note]) -> Iterator[_Note]:
    """Yield the first notes of each level, and a notice of the others, which is one of ten."""
    by_level = {level: [n for n in notes if n.level == level] for level in (ERROR, WARNING, NOTICE)}
    if all(len(each) <= SHOWN for each in by_level.values()):
        yield from chain.from_iterable(by_level.values())
        return
    room = {ERROR: SHOWN, WARNING: SHOWN, NOTICE: SHOWN - 1}
    kept = [note for level, each in by_level.items() for note in each[: room[level]]]
    yield from kept
    more = f"{len(notes) - len(kept)} more findings are in the step's summary."
    yield _Note(NOTICE, "more findings", (more,))


def _command(note: _Note) -> str:
    title = f"title={_property(_safe(note.title)[:LONGEST_TITLE])}"
    at = note.place
    place = f"file={_property(at.path)},line={at.line}," if at else ""
    message = "\n".join(_safe(line) for line in note.lines)
    return f"::{note.level} {place}{title}::{_data(message)}"


def _safe(text: str) -> str:
    """Return text that is one line, and holds no command of the old style."""
    return visible(text).replace("##[", r"##\x5b")


def _data(text: str) -> str:
    """Escape as the toolkit of Actions does (packages/core/src/command.ts)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _sum(named: Sequence[tuple[str, Audited]], found: Sequence[Row]) -> str:
    numbers = Counter(row.finding.severity for row in found)
    said = [f"{numbers[severity]} {severity.value}" for severity in Severity if numbers[severity]]
    open_ = sum(not (host.report and host.report.complete) for _, host in named)
    end = f"INCOMPLETE on {open_}" if open_ else "complete"
    hosts = counted(len(named), "host")
    gone = [host.report.fixed for _, host in named if host.report and host.report.fixed is not None]
    fixed = f"; {sum(map(len, gone))} fixed since the baseline" if gone else ""
    return f"ext4audit: {hosts}: {', '.join(said) or 'no findings'}{fixed}; audit {end}"
