"""The summary of a fleet: the rules with findings, worst first, and the totals of hosts."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ext4audit.finding import Severity
from ext4audit.renderers import Audited, chosen_groups, in_force_text, visible
from ext4audit.renderers.shared import USUAL_THRESHOLD, counted
from ext4audit.renderers.shared.subjects import SetAside
from ext4audit.report import Report
from ext4audit.rule import Rule

SHOWN = 5
"""Number of hosts named for each rule; the others are counted."""


class FoundRule(NamedTuple):
    """A rule with findings on one host, and its worst severity there."""

    code: str
    name: str
    worst: Severity


def worst_by_rule(report: Report) -> tuple[tuple[Rule, Severity], ...]:
    """Return the rules that have findings that count, and the worst severity of each."""
    worst: dict[str, tuple[Rule, Severity]] = {}
    for verdict in report.verdicts:
        rule = verdict.rule
        for finding in (each for each in verdict.findings if each.counts):
            before = worst.get(rule.code)
            if before is None or finding.severity.rank < before[1].rank:
                worst[rule.code] = rule, finding.severity
    return tuple(worst.values())


def group_shares(some: Counter[str], every: Counter[str]) -> tuple[str, ...]:
    """Return how many hosts of each group are affected ("web 3 of 12"), largest number first."""
    ranked = sorted(some.items(), key=lambda item: (-item[1], item[0]))
    return tuple(f"{group} {count} of {every[group]}" for group, count in ranked)


class HostLine(NamedTuple):
    """The result of one host's audit: the text to print, and what the summary counts.

    `name` is the host's key. `rendered` has a text for each format that is written host by host.
    `unread` is why there is no report, without the path of the source. `matched` is true if an ext4
    filesystem was judged. `host` is the whole report, for formats that show all hosts together.
    `used` has the suppressions that matched. `undetermined` has the codes of the rules that lacked
    some of their evidence. `groups` has the host's groups in the inventory. `aside` has the numbers
    of findings that do not count.
    """

    name: str
    rendered: tuple[str, ...]
    code: int
    complete: bool = True
    matched: bool = True
    found: tuple[FoundRule, ...] = ()
    unread: str | None = None
    host: Audited | None = None
    used: frozenset[object] = frozenset()
    undetermined: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    aside: SetAside = SetAside()


class FleetSums:
    """Totals over hosts, in memory that does not grow with their number.

    Rules at `threshold` or worse are listed, the milder ones counted; None means USUAL_THRESHOLD.
    `in_force` has the policy file and the newer data files. `group_by` has globs of the groups
    whose hosts are counted for each rule.
    """

    def __init__(
        self,
        threshold: Severity | None = None,
        group_by: Sequence[str] = (),
        in_force: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start with no hosts."""
        self._in_force = in_force
        self._group_by = group_by
        self._groups: Counter[str] = Counter()
        self._threshold = threshold or USUAL_THRESHOLD
        self.hosts = self.matched = 0
        self._failing = self._failing_incomplete = self._incomplete = self._mild = 0
        self._unread, self._lacking = _Names(), _Names()
        self._rules: dict[FoundRule, _Names] = {}
        self._aside = SetAside()

    @property
    def read(self) -> int:
        """The number of hosts with a report."""
        return self.hosts - self._unread.count

    def add(self, line: HostLine) -> None:
        """Count one host."""
        self.hosts += 1
        groups = chosen_groups(line.groups, self._group_by)
        self._groups.update(groups)
        if line.unread is not None:
            reason = line.unread.partition("; ")[0]
            self._unread.add(f"{line.name} ({reason})", groups)
            return
        self.matched += line.matched
        self._aside = self._aside.plus(line.aside)
        failing = [rule.worst.at_least(self._threshold) for rule in line.found]
        self._failing += any(failing)
        self._failing_incomplete += any(failing) and not line.complete
        self._incomplete += not any(failing) and not line.complete
        if not line.complete:
            self._lacking.add(line.name, groups)
        self._mild += not all(failing)
        for rule in line.found:
            self._rules.setdefault(rule, _Names()).add(line.name, groups)

    def text(self, *, verbosity: int = 0, ascii_only: bool, width: int | None = None) -> str:
        """Return the rules, the hosts that lack evidence or could not be read, and the totals.

        `verbosity` is -1 for the totals only, 0, or 1 for the rules of all severities. Lines
        longer than `width` are wrapped below the rule's code; None is for files and pipes.
        """
        lines = [self._totals()]
        if verbosity >= 0:
            whole = verbosity > 0
            missing = (*self._lacking_lines(whole=whole), *self._unread_lines())
            lines = [*self._rule_lines(whole=whole), *missing, *lines]
        shown = (visible(line, ascii_only=ascii_only) for line in lines)
        return "".join(f"{_wrapped(line, width)}\n" for line in shown)

    def _rule_lines(self, *, whole: bool) -> Iterator[str]:
        """Yield a line for each rule and severity, the worst first, then by code."""
        least = Severity.INFO if whole else self._threshold
        ranked = sorted(self._rules.items(), key=lambda item: (item[0].worst.rank, item[0].code))
        shown = [(rule, on) for rule, on in ranked if rule.worst.at_least(least)]
        severities = max((len(rule.worst.value) for rule, _ in shown), default=0)
        names = max((len(rule.name) for rule, _ in shown), default=0)
        digits = max((len(str(on.count)) for _, on in shown), default=0)
        for rule, on in shown:
            start = f"{rule.worst.value.upper():<{severities}}  {rule.code} {rule.name:<{names}}"
            yield f"{start}  {on.count:>{digits}} of {counted(self.hosts, 'host')}  {on.text()}"
            yield from self._group_lines(on, severities + 2)
        mild = {rule.code for rule, _ in ranked if not rule.worst.at_least(least)}
        if mild:
            start = " " * (severities + 2 if shown else 0)
            below = f"{counted(len(mild), 'rule')} below {self._threshold.value}"
            yield f"{start}{below}, on {counted(self._mild, 'host')}: -v"

    def _lacking_lines(self, *, whole: bool) -> Iterator[str]:
        """Yield the hosts that lack decisive evidence; their own reports list it."""
        if self._lacking.count:
            yield f"Incomplete: {self._lacking.text()}{'' if whole else ' (-v shows why)'}"
            yield from self._group_lines(self._lacking, 2)

    def _unread_lines(self) -> Iterator[str]:
        if self._unread.count:
            yield f"Unread: {self._unread.text()}"
            yield from self._group_lines(self._unread, 2)

    def _group_lines(self, on: _Names, indent: int) -> Iterator[str]:
        """Yield a line with the number of affected hosts in each group, largest number first."""
        shares = group_shares(on.groups, self._groups)
        if shares:
            yield f"{' ' * indent}in {', '.join(shares)}"

    def _totals(self) -> str:
        """Return the number of hosts, then the numbers by result, which add up to it.

        Findings that do not count are counted behind them: they can be all that a clean host has.
        """
        clean = self.read - self._failing - self._incomplete
        also = f" ({self._failing_incomplete} incomplete)" if self._failing_incomplete else ""
        least = self._threshold.value
        or_worse = "" if self._threshold is Severity.CRITICAL else " or worse"
        parts = [f"{self._failing} with findings at {least}{or_worse}{also}"]
        parts += [f"{clean} clean"]
        parts += [f"{self._incomplete} incomplete"] if self._incomplete else []
        parts += [f"{self._unread.count} unread"] if self._unread.count else []
        aside = ", ".join(self._aside.texts())
        end = f"{aside and f'; {aside}'}{in_force_text(self._in_force)}"
        return f"{counted(self.hosts, 'host')}: {', '.join(parts)}{end}"


def _wrapped(line: str, width: int | None) -> str:
    """Wrap a line to `width`, with continuation lines indented to its second column."""
    if width is None or len(line) <= width:
        return line
    second = re.search(r"^\S* {2,}|^ +", line)
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * (len(second[0]) if second else 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


class _Names:
    """The number of hosts, in total and by group, and the names of the first few."""

    def __init__(self) -> None:
        self.count = 0
        self.groups: Counter[str] = Counter()
        self._first: list[str] = []

    def add(self, name: str, groups: Iterable[str] = ()) -> None:
        self.count += 1
        self.groups.update(groups)
        if len(self._first) < SHOWN:
            self._first.append(name)

    def text(self) -> str:
        more = self.count - len(self._first)
        return f"{', '.join(self._first)}{f' and {more} more' if more else ''}"
