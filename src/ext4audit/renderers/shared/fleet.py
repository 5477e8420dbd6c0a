"""The summary of a fleet: one line for each rule with findings, and the totals over all hosts."""

from collections.abc import Iterator
from typing import NamedTuple

from ext4audit.finding import Severity
from ext4audit.renderers.shared import Audited, visible
from ext4audit.renderers.shared.terms import counted

SHOWN = 5
"""Hosts that are named for each rule; the others are counted."""


class FoundRule(NamedTuple):
    """A rule with findings on one host, and its worst severity there."""

    code: str
    name: str
    worst: Severity


class HostLine(NamedTuple):
    """The result of one host's audit: the text to print, and what the summary counts.

    `name` is the name of the source without its directory. `rendered` has a text for each format
    that is written host by host. `error` is why there is no report. `matched` is true where an
    ext4 filesystem was judged. `host` is the whole report, for formats that show all hosts
    together. `used` are the suppressions that matched. `undetermined` are the codes of the rules
    that could not see all of their evidence.
    """

    name: str
    rendered: tuple[str, ...]
    code: int
    complete: bool = True
    matched: bool = True
    found: tuple[FoundRule, ...] = ()
    error: str | None = None
    host: Audited | None = None
    used: frozenset[object] = frozenset()
    undetermined: frozenset[str] = frozenset()


class FleetSums:
    """Totals over hosts, in memory that does not grow with their number."""

    def __init__(self, policy: str | None = None) -> None:
        """Start without hosts; `policy` is the policy file in force."""
        self._policy = policy
        self.hosts = self.matched = 0
        self._findings = self._incomplete = 0
        self._unread = _HostCount()
        self._rules: dict[tuple[str, str], _HostCount] = {}

    @property
    def read(self) -> int:
        """How many hosts have a report."""
        return self.hosts - self._unread.count

    def add(self, line: HostLine) -> None:
        """Count one host."""
        self.hosts += 1
        if line.error is not None:
            self._unread.add(line.name)
            return
        self.matched += line.matched
        self._findings += bool(line.found)
        self._incomplete += not line.complete
        for rule in line.found:
            self._rules.setdefault((rule.code, rule.name), _HostCount()).add(line.name, rule.worst)

    def text(self, *, ascii_only: bool, quiet: bool = False) -> str:
        """Return one line for each rule with findings, and the totals last, alone if quiet."""
        rules = [] if quiet else [*self._rule_lines(), *self._unread_lines()]
        lines = [*rules, self._totals()]
        return "".join(f"{visible(line, ascii_only=ascii_only)}\n" for line in lines)

    def _rule_lines(self) -> Iterator[str]:
        width = max((len(name) for _, name in self._rules), default=0)
        for (code, name), on in sorted(self._rules.items()):
            yield f"{code} {name:<{width}}  {on.worst.value:<8}  {on.text(self.hosts)}"

    def _unread_lines(self) -> Iterator[str]:
        if self._unread.count:
            yield f"could not be read: {self._unread.text(self.hosts)}"

    def _totals(self) -> str:
        policy = f"; policy {self._policy}" if self._policy else ""
        return (
            f"{counted(self.hosts, 'host')}: {self._findings} with findings, "
            f"{self._incomplete} incomplete, {self._unread.count} could not be read{policy}"
        )


class _HostCount:
    """A number of hosts, the names of the first few, and the worst severity on them."""

    def __init__(self) -> None:
        self.count = 0
        self.worst = Severity.INFO
        self._names: list[str] = []

    def add(self, name: str, severity: Severity = Severity.INFO) -> None:
        self.count += 1
        if severity.at_least(self.worst):
            self.worst = severity
        if len(self._names) < SHOWN:
            self._names.append(name)

    def text(self, hosts: int) -> str:
        more = self.count - len(self._names)
        rest = f" and {more} more" if more else ""
        return f"{self.count} of {counted(hosts, 'host')}: {', '.join(self._names)}{rest}"
