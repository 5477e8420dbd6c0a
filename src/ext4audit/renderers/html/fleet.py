"""Several hosts in the HTML report: summary, table of hosts and rules, and folded hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page, chosen_groups, groups_of, visible
from ext4audit.renderers.html.finding import Badge, PagePart, Place, page_parts
from ext4audit.renderers.html.host import (
    HostSection,
    aside_chips,
    finding_chips,
    host_section,
    severity_chips,
    worse_findings,
)
from ext4audit.renderers.shared import counted
from ext4audit.renderers.shared.fleet import group_shares, worst_by_rule
from ext4audit.report import (
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INCOMPLETE,
    Outcome,
    Report,
    Verdict,
    exit_code,
)
from ext4audit.rule import Rule

NO_FINDING = len(Severity)
"""The rank of a host or rule without a finding: one more than the rank of severity info."""


class Entry(NamedTuple):
    """One host of a fleet, the anchor of its section, and the rank of its worst finding."""

    host: Audited
    anchor: str
    rank: int


class FleetSummary(NamedTuple):
    """The result of all hosts, the findings by severity, and the numbers of hosts."""

    banner: Badge
    chips: tuple[Badge, ...]
    hosts: tuple[Badge, ...]


class RuleEntry(NamedTuple):
    """A rule with findings, the hosts that have them, worst first, and the page of the rule.

    A host has a badge if its severity is milder than `worst`. `total` is the number of all hosts.
    `groups` shows how many hosts of each group have findings.
    """

    rule: Rule
    worst: Severity
    total: int
    hosts: tuple[tuple[Place, Badge | None], ...]
    about: tuple[PagePart, ...]
    groups: tuple[str, ...]

    @property
    def at_worst(self) -> int:
        """The number of hosts with a finding of severity `worst`, as in the text summary."""
        return sum(badge is None for _, badge in self.hosts)

    @property
    def share(self) -> str:
        """The number of hosts with severity `worst`, and of those with a milder one, as text."""
        milder = len(self.hosts) - self.at_worst
        share = f"{self.at_worst} of {counted(self.total, 'host')}"
        return f"{share}, milder on {milder} more" if milder else share


class FoldedHost(NamedTuple):
    """One host of a fleet below the summary; it is unfolded in print if `printed`.

    `section` is None for a host that could not be read.
    """

    entry: Entry
    chips: tuple[Badge, ...]
    printed: bool
    section: HostSection | None


def worst_first(hosts: Sequence[Audited]) -> tuple[Entry, ...]:
    """Return the hosts by their worst finding, then the unread, incomplete and clean ones.

    Of hosts with equally severe worst findings, the one with more findings is first.
    """
    ordered = sorted(hosts, key=lambda host: _order(host.report))
    return tuple(
        Entry(host, f"host-{quote(visible(host.name), safe='')}", _worst_rank(host.report))
        for host in ordered
    )


def _order(report: Report | None) -> tuple[int, ...]:
    found = _severities(report)
    unread = report is None
    state = 0 if unread or found else 2 if report and report.complete else 1
    return (_worst_rank(report), state, *(-found[severity] for severity in Severity))


def _worst_rank(report: Report | None) -> int:
    return min((each.rank for each in _severities(report)), default=NO_FINDING)


def _severities(report: Report | None) -> Counter[Severity]:
    """Return the number of findings that count, by severity."""
    return Counter(finding.severity for finding in report.counted) if report else Counter()


def folded_host(entry: Entry, page: Page) -> FoldedHost:
    """Return one host of a fleet; it is unfolded in print if it fails or could not be read."""
    report = entry.host.report
    if report is None:
        unread = Badge("could not be read", "open")
        return FoldedHost(entry, (unread,), printed=True, section=None)
    section = host_section(report, page, entry.anchor, brief=True)
    printed = _code(report, page) == EXIT_FINDINGS
    return FoldedHost(entry, finding_chips(report, page), printed=printed, section=section)


def fleet_summary(entries: Sequence[Entry], page: Page) -> FleetSummary:
    """Return the result and the totals of all hosts."""
    reports = [entry.host.report for entry in entries if entry.host.report is not None]
    found = sum((_severities(report) for report in reports), Counter[Severity]())
    return FleetSummary(
        banner=_banner(entries, page),
        chips=(*severity_chips(found), *aside_chips(reports)),
        hosts=tuple(_host_chips(entries, page)),
    )


def _code(report: Report | None, page: Page) -> int:
    if report is None:
        return EXIT_INCOMPLETE
    return exit_code(report, page.threshold, allow_incomplete=page.allow_incomplete)


def _banner(entries: Sequence[Entry], page: Page) -> Badge:
    """Return the result of the worst host; a host that could not be read counts as incomplete."""
    codes = Counter(_code(entry.host.report, page) for entry in entries)
    worse = f"findings {worse_findings(page)}"
    of = f"of {counted(len(entries), 'host')}"
    if codes[EXIT_FINDINGS]:
        return Badge(f"Failed: {codes[EXIT_FINDINGS]} {of} have {worse}.", "critical")
    if codes[EXIT_INCOMPLETE]:
        return Badge(
            f"Incomplete: no {worse}, but {codes[EXIT_INCOMPLETE]} {of} lack evidence.", "open"
        )
    if page.threshold is None:
        return Badge("No severity fails this audit.", "info")
    return Badge(f"Passed: {codes[EXIT_CLEAN]} {of} without {worse}.", "fine")


def _host_chips(entries: Sequence[Entry], page: Page) -> Iterator[Badge]:
    """Yield the numbers of hosts by result, counting each host once, as in the text summary."""
    results = Counter(_result(entry.host.report, page) for entry in entries)
    looks = {f"with findings {worse_findings(page)}": "critical", "clean": "fine"}
    for result in (*looks, "incomplete", "could not be read"):
        if results[result]:
            yield Badge(f"{results[result]} {result}", looks.get(result, "open"))


def _result(report: Report | None, page: Page) -> str:
    """Return the result of a host; a failed one counts as failed even if incomplete."""
    if report is None:
        return "could not be read"
    if _code(report, page) == EXIT_FINDINGS:
        return f"with findings {worse_findings(page)}"
    return "clean" if report.complete_for(page.threshold) else "incomplete"


def rule_entries(entries: Sequence[Entry], page: Page) -> tuple[RuleEntry, ...]:
    """Return the rules with findings that count, worst first, then by number of such hosts."""
    by_group = _by_group(entries, page)
    found: dict[str, list[tuple[Entry, Severity]]] = {}
    rules: dict[str, Rule] = {}
    for entry in entries:
        for rule, worst in worst_by_rule(entry.host.report) if entry.host.report else ():
            found.setdefault(rule.code, []).append((entry, worst))
            rules[rule.code] = rule
    made = [
        _rule_entry(
            rules[code],
            on,
            len(entries),
            group_shares(_by_group([entry for entry, _ in on], page), by_group),
        )
        for code, on in found.items()
    ]
    return tuple(sorted(made, key=lambda each: (each.worst.rank, -each.at_worst, each.rule.code)))


def unread_groups(entries: Sequence[Entry], page: Page) -> tuple[str, ...]:
    """Return how many hosts of each group could not be read."""
    unread = [entry for entry in entries if entry.host.report is None]
    return group_shares(_by_group(unread, page), _by_group(entries, page))


def _by_group(entries: Sequence[Entry], page: Page) -> Counter[str]:
    """Return the number of hosts in each group that `group_by` selects."""
    groups = (chosen_groups(groups_of(entry.host), page.group_by) for entry in entries)
    return Counter(group for each in groups for group in each)


def _rule_entry(
    rule: Rule, on: Sequence[tuple[Entry, Severity]], hosts: int, groups: tuple[str, ...]
) -> RuleEntry:
    """Return one rule; hosts with a severity milder than the worst get a badge for it."""
    ordered = sorted(on, key=lambda pair: pair[1].rank)
    worst = ordered[0][1]
    return RuleEntry(
        rule=rule,
        worst=worst,
        total=hosts,
        hosts=tuple(
            (
                Place(entry.host.name, entry.anchor),
                None if own is worst else Badge(own.value, own.value),
            )
            for entry, own in ordered
        ),
        about=page_parts(rule),
        groups=groups,
    )


class Cell(NamedTuple):
    """One rule on one host: badges, or `text` if there are none."""

    badges: tuple[Badge, ...]
    text: str


class Column(NamedTuple):
    """One rule; `rank` is the rank of its worst finding on any host."""

    rule: Rule
    rank: int


class Row(NamedTuple):
    """One host of the table; `cells` is None if the host could not be read."""

    entry: Entry
    has_gaps: bool
    cells: tuple[Cell, ...] | None


class Matrix(NamedTuple):
    """A table of hosts and the rules with a finding or an undetermined verdict, worst first.

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
        if verdict.findings or verdict.is_undetermined:
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
    """Return badges for the worst finding that counts and for a gap, or else the outcome."""
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    counting = [finding.severity for finding in findings if finding.counts]
    badges = []
    if counting:
        worst = min(counting, key=lambda severity: severity.rank)
        badges.append(Badge(worst.value, worst.value))
    if any(verdict.is_undetermined for verdict in verdicts):
        badges.append(Badge("?", "open"))
    return Cell(tuple(badges), _quiet_text(verdicts, accepted=bool(findings)))


def _quiet_text(verdicts: Sequence[Verdict], *, accepted: bool) -> str:
    if accepted:
        return "accepted"
    if any(verdict.outcome is Outcome.PASS for verdict in verdicts):
        return "ok"
    return "n/a" if verdicts else ""
