"""Several hosts in the HTML report: the table of hosts and rules, and the folded hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ext4audit.finding import Severity
from ext4audit.renderers.html.host import HostSection, finding_chips, host_section
from ext4audit.renderers.html.subject import Badge
from ext4audit.renderers.shared import Audited, Page, host_names
from ext4audit.renderers.shared.rows import segment
from ext4audit.renderers.shared.subjects import is_undetermined
from ext4audit.renderers.shared.terms import counted
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule


@dataclass(frozen=True, slots=True)
class Entry:
    """One host of a fleet with the anchor of its section."""

    host: Audited
    anchor: str

    @property
    def name(self) -> str:
        """The key of the host."""
        return host_names((self.host,))[0]


@dataclass(frozen=True, slots=True)
class Cell:
    """One rule on one host: badges, or `text` where there are none."""

    badges: tuple[Badge, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One host of the table; `cells` are None for a host that could not be read."""

    entry: Entry
    has_gaps: bool
    cells: tuple[Cell, ...] | None


@dataclass(frozen=True, slots=True)
class FleetTable:
    """The totals, and a table of the hosts by the rules with a finding or an undetermined verdict.

    `quiet_rules` is the number of rules without a column.
    """

    totals: tuple[Badge, ...]
    rules: tuple[Rule, ...]
    quiet_rules: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class FoldedHost:
    """One host of a fleet below its summary; it is unfolded on paper if `printed`.

    `section` is None for a host that could not be read.
    """

    entry: Entry
    chips: tuple[Badge, ...]
    printed: bool
    section: HostSection | None


def worst_first(hosts: Sequence[Audited]) -> tuple[Entry, ...]:
    """Return the hosts by their worst finding, then the unread, incomplete and clean ones."""
    ordered = sorted(hosts, key=lambda host: _rank(host.report))
    names = host_names(ordered)
    return tuple(
        Entry(host, f"host-{segment(name)}") for host, name in zip(ordered, names, strict=True)
    )


def _rank(report: Report | None) -> int:
    unread = len(Severity)
    if report is None:
        return unread
    found = min((finding.severity.rank for finding in report.counted), default=unread + 2)
    return found if found < unread or report.complete else unread + 1


def folded_host(entry: Entry, page: Page) -> FoldedHost:
    """Return one host of a fleet; a host that fails the audit is unfolded on paper."""
    report = entry.host.report
    if report is None:
        unread = Badge("could not be read", "open")
        return FoldedHost(entry, (unread,), printed=True, section=None)
    worst = page.threshold
    fails = worst is not None and any(f.severity.at_least(worst) for f in report.counted)
    section = host_section(report, page, entry.anchor)
    return FoldedHost(entry, finding_chips(report), printed=fails, section=section)


def fleet_table(entries: Sequence[Entry]) -> FleetTable:
    """Return the totals, and the table of all hosts."""
    reports = [entry.host.report for entry in entries if entry.host.report is not None]
    rules = _rules(reports)
    every = {verdict.rule.code for report in reports for verdict in report.verdicts}
    return FleetTable(
        totals=_totals(len(entries), reports),
        rules=rules,
        quiet_rules=len(every) - len(rules),
        rows=tuple(_row(entry, rules) for entry in entries),
    )


def _totals(hosts: int, reports: Sequence[Report]) -> tuple[Badge, ...]:
    found = sum(bool(report.counted) for report in reports)
    incomplete = sum(not report.complete for report in reports)
    unread = hosts - len(reports)
    badges = [Badge(counted(hosts, "host"), "info"), Badge(f"{found} with findings", "info")]
    if incomplete:
        badges.append(Badge(f"{incomplete} incomplete", "open"))
    if unread:
        badges.append(Badge(f"{unread} could not be read", "open"))
    return tuple(badges)


def _rules(reports: Sequence[Report]) -> tuple[Rule, ...]:
    """Return the rules with a finding or an undetermined verdict on any host, by code."""
    shown = {
        verdict.rule.code: verdict.rule
        for report in reports
        for verdict in report.verdicts
        if verdict.findings or is_undetermined(verdict)
    }
    return tuple(shown[code] for code in sorted(shown))


def _row(entry: Entry, rules: Sequence[Rule]) -> Row:
    report = entry.host.report
    if report is None:
        return Row(entry, has_gaps=False, cells=None)
    by_code: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        by_code.setdefault(verdict.rule.code, []).append(verdict)
    cells = tuple(_cell(by_code.get(rule.code, [])) for rule in rules)
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
    return Cell(tuple(badges), _quiet_text(verdicts, aside=bool(findings)))


def _quiet_text(verdicts: Sequence[Verdict], *, aside: bool) -> str:
    if aside:
        return "aside"
    if any(verdict.outcome is Outcome.PASS for verdict in verdicts):
        return "ok"
    return "n/a" if verdicts else ""
