"""The table of hosts and rules of a fleet: each cell has the worst severity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ext4audit.renderers.html.finding import Badge
from ext4audit.renderers.html.fleet import NO_FINDING, Entry
from ext4audit.renderers.shared.subjects import is_undetermined
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule


@dataclass(frozen=True, slots=True)
class Cell:
    """One rule on one host: badges, or `text` where there are none."""

    badges: tuple[Badge, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """One rule; `rank` is that of its worst finding on any host."""

    rule: Rule
    rank: int


@dataclass(frozen=True, slots=True)
class Row:
    """One host of the table; `cells` are None for a host that could not be read."""

    entry: Entry
    has_gaps: bool
    cells: tuple[Cell, ...] | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """The hosts by the rules with a finding or an undetermined verdict, worst first.

    `quiet_rules` is the number of rules without a column.
    """

    columns: tuple[Column, ...]
    quiet_rules: int
    rows: tuple[Row, ...]


def matrix(entries: Sequence[Entry]) -> Matrix:
    """Return the table of all hosts."""
    reports = [entry.host.report for entry in entries if entry.host.report is not None]
    columns = _columns(reports)
    every = {verdict.rule.code for report in reports for verdict in report.verdicts}
    return Matrix(
        columns=columns,
        quiet_rules=len(every) - len(columns),
        rows=tuple(_row(entry, columns) for entry in entries),
    )


def _columns(reports: Sequence[Report]) -> tuple[Column, ...]:
    """Return the columns by the worst finding, then by the number of findings, then by code."""
    shown: dict[str, Rule] = {}
    ranks: dict[str, list[int]] = {}
    for verdict in (verdict for report in reports for verdict in report.verdicts):
        if verdict.findings or is_undetermined(verdict):
            code = verdict.rule.code
            shown[code] = verdict.rule
            counting = (each.severity.rank for each in verdict.findings if each.counts)
            ranks.setdefault(code, []).extend(counting)
    order = sorted(shown, key=lambda code: (_worst(ranks[code]), -len(ranks[code]), code))
    return tuple(Column(shown[code], _worst(ranks[code])) for code in order)


def _worst(ranks: Sequence[int]) -> int:
    return min(ranks, default=NO_FINDING)


def _row(entry: Entry, columns: Sequence[Column]) -> Row:
    report = entry.host.report
    if report is None:
        return Row(entry, has_gaps=False, cells=None)
    by_code: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        by_code.setdefault(verdict.rule.code, []).append(verdict)
    cells = tuple(_cell(by_code.get(column.rule.code, [])) for column in columns)
    return Row(entry, has_gaps=bool(report.host.gaps), cells=cells)


def _cell(verdicts: Sequence[Verdict]) -> Cell:
    """Return the worst finding that counts and whether a gap exists, else the outcome."""
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    counting = [finding.severity for finding in findings if finding.counts]
    badges = []
    if counting:
        worst = min(counting, key=lambda severity: severity.rank)
        badges.append(Badge(worst.value, worst.value))
    if any(is_undetermined(verdict) for verdict in verdicts):
        badges.append(Badge("?", "open"))
    return Cell(tuple(badges), _quiet_text(verdicts, accepted=bool(findings)))


def _quiet_text(verdicts: Sequence[Verdict], *, accepted: bool) -> str:
    if accepted:
        return "accepted"
    if any(verdict.outcome is Outcome.PASS for verdict in verdicts):
        return "ok"
    return "n/a" if verdicts else ""
