"""The HTML report of many hosts: all of them against the rules, at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.finding import Severity
from ext4audit.renderers.html_markup import NEWLINE, Html, joined, lines, tag
from ext4audit.renderers.html_parts import apart, badge, chips
from ext4audit.renderers.shared.page import Audited
from ext4audit.renderers.shared.words import counted
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule

_OPEN = frozenset({Outcome.UNDETERMINED, Outcome.ERROR})
_LEGEND = (
    ("?", "a blind spot, or a gap in the view of the host"),
    ("aside", "suppressed, or in the baseline"),
    ("ok", "passed"),
    ("n/a", "does not apply"),
    ("", "not judged"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One host of a fleet with the anchor of its section."""

    host: Audited
    anchor: str

    @property
    def name(self) -> str:
        """What tells it apart: many hosts are called localhost, so the source comes with it."""
        report = self.host.report
        return self.host.label if report is None else f"{report.host.name} ({self.host.label})"


def worst_first(hosts: Sequence[Audited]) -> tuple[Entry, ...]:
    """Return the hosts by their worst finding, then what could not be read or seen, then clean."""
    ordered = sorted(hosts, key=lambda host: _rank(host.report))
    return tuple(Entry(host, f"host-{number}") for number, host in enumerate(ordered, start=1))


def _rank(report: Report | None) -> int:
    blind = len(Severity)
    if report is None:
        return blind
    found = min((finding.severity.rank for finding in report.counted), default=blind + 2)
    return found if found < blind or report.complete else blind + 1


def fleet_part(entries: Sequence[Entry]) -> Html:
    """Return the sums, and the table of hosts against the rules that say anything at all."""
    reports = [entry.host.report for entry in entries if entry.host.report is not None]
    rules = _rules(reports)
    return lines((_sums(entries, reports), *_about(rules, reports), _matrix(entries, rules)))


def _sums(entries: Sequence[Entry], reports: Sequence[Report]) -> Html:
    found = sum(bool(report.counted) for report in reports)
    open_ = sum(not report.complete for report in reports)
    unread = len(entries) - len(reports)
    made = [badge(counted(len(entries), "host"), "info"), badge(f"{found} with findings", "info")]
    if open_:
        made.append(badge(f"{open_} incomplete", "open"))
    if unread:
        made.append(badge(f"{unread} could not be read", "open"))
    return chips(made)


def _rules(reports: Sequence[Report]) -> tuple[Rule, ...]:
    """Return the rules with a finding or a blind spot anywhere, by code."""
    said = {
        verdict.rule.code: verdict.rule
        for report in reports
        for verdict in report.verdicts
        if verdict.findings or verdict.outcome in _OPEN or verdict.unknowns
    }
    return tuple(said[code] for code in sorted(said))


def _about(rules: Sequence[Rule], reports: Sequence[Report]) -> Iterator[Html]:
    every = {verdict.rule.code for report in reports for verdict in report.verdicts}
    quiet = counted(len(every) - len(rules), "rule")
    words = "Each cell has the worst severity of a rule on a host. "
    keys = (joined((tag("strong", f"“{key}”"), f" {said}; ")) for key, said in _LEGEND if key)
    rest = f"empty: not judged. {quiet} found nothing anywhere, and have no column."
    yield tag("p", words, *keys, rest, class_="small")


def _matrix(entries: Sequence[Entry], rules: Sequence[Rule]) -> Html:
    heads = (
        tag(
            "th", tag("span", tag("strong", rule.code), f" {rule.name}"), scope="col", class_="rule"
        )
        for rule in rules
    )
    head = tag("thead", tag("tr", tag("th", "Host", scope="col"), *heads))
    body = tag("tbody", NEWLINE, lines(_row(entry, rules) for entry in entries))
    name = "Hosts and rules"
    table = tag("table", head, NEWLINE, body, class_="matrix", aria_label=name)
    return tag("div", table, class_="scroll tall", tabindex="0", role="region", aria_label=name)


def _row(entry: Entry, rules: Sequence[Rule]) -> Html:
    link = tag("a", entry.name, href=f"#{entry.anchor}")
    report = entry.host.report
    gaps = (" ", badge("? gaps", "open")) if report is not None and report.host.gaps else ()
    head = tag("th", link, *gaps, scope="row")
    if report is None:
        error = joined((badge("?", "open"), f" could not be read: {entry.host.error}"))
        return tag("tr", head, tag("td", error, colspan=str(max(len(rules), 1)), class_="words"))
    said: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        said.setdefault(verdict.rule.code, []).append(verdict)
    return tag("tr", head, *(_cell(said.get(rule.code, [])) for rule in rules))


def _cell(verdicts: Sequence[Verdict]) -> Html:
    """Return the worst finding that counts, a blind spot also beside it; else what was said."""
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    counting = [finding.severity for finding in findings if finding.counts]
    parts = []
    if counting:
        worst = min(counting, key=lambda severity: severity.rank)
        parts.append(badge(worst.value, worst.value))
    if any(verdict.outcome in _OPEN or verdict.unknowns for verdict in verdicts):
        parts.append(badge("?", "open"))
    if not parts:
        parts = [joined((_quiet(verdicts, aside=bool(findings)),))]
    return tag("td", *apart(parts))


def _quiet(verdicts: Sequence[Verdict], *, aside: bool) -> str:
    if aside:
        return "aside"
    if any(verdict.outcome is Outcome.PASS for verdict in verdicts):
        return "ok"
    return "n/a" if verdicts else ""
