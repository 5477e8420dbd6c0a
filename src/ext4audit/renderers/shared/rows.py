"""The hosts of a page as rows, and the sums of a fleet by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited
from ext4audit.renderers.shared.words import counted, why_words
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule

ACTIVE, SUPPRESSED, KNOWN = "active", "suppressed", "known"
"""What becomes of a finding: it counts, the policy accepts it, or the baseline has it."""
THE_HOST = "the host"
_OPEN = frozenset({Outcome.UNDETERMINED, Outcome.ERROR})


@dataclass(frozen=True, slots=True)
class Row:
    """One finding of one host; `filesystem` is None where it is about the host."""

    host: str
    rule: Rule
    filesystem: Filesystem | None
    finding: Finding

    @property
    def where(self) -> str:
        """What the subject is called."""
        return where(self.filesystem)

    @property
    def state(self) -> str:
        """Whether it counts, and if not, why: `suppressed` beats `known`."""
        if self.finding.suppression is not None:
            return SUPPRESSED
        return KNOWN if self.finding.known else ACTIVE


@dataclass(frozen=True, slots=True)
class Blind:
    """What could not be judged: a rule on a subject, or without a rule what a host hides.

    `error` is what a broken rule said last.
    """

    host: str
    rule: Rule | None
    filesystem: Filesystem | None
    unknowns: tuple[Unknown, ...]
    error: str | None = None

    @property
    def where(self) -> str:
        """What the subject is called."""
        return where(self.filesystem)

    @property
    def words(self) -> str:
        """What is not known, and why."""
        holes = [f"{unknown.what} ({why_words(unknown)})" for unknown in self.unknowns]
        stopped = [] if self.error is None else [f"stopped with an error: {self.error}"]
        return "; ".join((*holes, *stopped)) or "not determined"

    @property
    def hint(self) -> str:
        """How to make it known; empty where nothing can be done."""
        return "; ".join(dict.fromkeys(each.hint for each in self.unknowns if each.hint))


def where(fs: Filesystem | None) -> str:
    """Return what a subject is called: device and first mount point, or the host."""
    if fs is None:
        return THE_HOST
    return f"{fs.device} on {fs.mount_points[0]}" if fs.mount_points else fs.device


def host_names(hosts: Sequence[Audited]) -> tuple[str, ...]:
    """Return a name for each host; they differ also in what is shown of them.

    Many hosts are called "localhost": those of one name are told apart by their sources.
    """
    plain = [_plain(host) for host in hosts]
    alike: dict[str, list[Audited]] = {}
    for name, host in zip(plain, hosts, strict=True):
        alike.setdefault(visible(name), []).append(host)
    sources = {key: _sources(same) for key, same in alike.items()}
    full = [_with(name, next(sources[visible(name)])) for name in plain]
    return tuple(_numbered(full))


def _sources(hosts: Sequence[Audited]) -> Iterator[str]:
    """Yield what tells hosts of one name apart: the last parts of their sources, if they do."""
    if len(hosts) == 1:
        return iter([""])
    parts = [_last_part(host.label) for host in hosts]
    return iter(parts if len(set(parts)) == len(parts) else [host.label for host in hosts])


def _with(name: str, source: str) -> str:
    return f"{name} ({source})" if source else name


def _plain(host: Audited) -> str:
    name = "" if host.report is None else host.report.host.name
    return name or _last_part(host.label)


def _last_part(label: str) -> str:
    return label.rstrip("/").rpartition("/")[2] or label


def _numbered(names: Sequence[str]) -> Iterator[str]:
    """Yield the names, those that were there before with a number."""
    taken, last = set(map(visible, names)), Counter[str]()
    for name in names:
        key = visible(name)
        last[key] += 1
        shown = name
        if last[key] > 1:
            while visible(shown := f"{name} #{last[key]}") in taken:
                last[key] += 1
            taken.add(visible(shown))
        yield shown


def rows(name: str, report: Report) -> list[Row]:
    """Return all findings of a host, the worst first, then by code."""
    by_id = _filesystems(report)
    found = [
        Row(name, verdict.rule, by_id.get(verdict.filesystem_id or ""), finding)
        for verdict in report.verdicts
        for finding in verdict.findings
    ]
    return sorted(found, key=rank)


def rank(row: Row) -> tuple[int, str]:
    """Order rows from worst to mildest, then by code."""
    return row.finding.severity.rank, row.rule.code


def blind_spots(name: str, report: Report) -> list[Blind]:
    """Return what could not be judged on a host, or not wholly; what the host hides stands first.

    Empty exactly where the report is complete.
    """
    by_id = _filesystems(report)
    gaps = [Blind(name, None, None, (gap,)) for gap in report.host.gaps]
    return gaps + [
        Blind(name, v.rule, by_id.get(v.filesystem_id or ""), v.unknowns, _error(v))
        for v in report.verdicts
        if v.outcome in _OPEN or v.unknowns
    ]


def _filesystems(report: Report) -> dict[str, Filesystem]:
    return {fs.id: fs for fs in report.host.filesystems}


def _error(verdict: Verdict) -> str | None:
    if verdict.outcome is not Outcome.ERROR:
        return None
    return (verdict.note or "no traceback").strip().rpartition("\n")[2]


SHOWN = 5
"""Hosts that are named for each rule; the others are counted."""


class FoundRule(NamedTuple):
    """A rule that found something on one host, and its worst finding there."""

    code: str
    name: str
    worst: Severity


class HostLine(NamedTuple):
    """What is left of one host's audit: the text that is printed for it, and what is summed.

    `name` is the source's, without its directory; `rendered` has a text for each format that is
    written host by host. `error` says why there is no report; `matched`, whether an ext4
    filesystem was judged. `host` is the whole report where a format shows all hosts together,
    `used` the suppressions that matched, `blind` the codes of rules that could not see all of it.
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
    blind: frozenset[str] = frozenset()


class FleetSums:
    """Sums over hosts, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self.hosts = self.matched = 0
        self._findings = self._incomplete = 0
        self._unread = _Named()
        self._rules: dict[tuple[str, str], _Named] = {}

    @property
    def read(self) -> int:
        """How many hosts gave a report."""
        return self.hosts - self._unread.count

    def add(self, line: HostLine) -> None:
        """Take in one host."""
        self.hosts += 1
        if line.error is not None:
            self._unread.add(line.name)
            return
        self.matched += line.matched
        self._findings += bool(line.found)
        self._incomplete += not line.complete
        for rule in line.found:
            self._rules.setdefault((rule.code, rule.name), _Named()).add(line.name, rule.worst)

    def text(self, *, ascii_only: bool) -> str:
        """Return one line a rule that found something, and the sum last."""
        lines = [*self._rule_lines(), *self._unread_lines(), self._sum()]
        return "".join(f"{visible(line, ascii_only=ascii_only)}\n" for line in lines)

    def _rule_lines(self) -> Iterator[str]:
        width = max((len(name) for _, name in self._rules), default=0)
        for (code, name), on in sorted(self._rules.items()):
            yield f"{code} {name:<{width}}  {on.worst.value:<8}  {on.words(self.hosts)}"

    def _unread_lines(self) -> Iterator[str]:
        if self._unread.count:
            yield f"could not be read: {self._unread.words(self.hosts)}"

    def _sum(self) -> str:
        return (
            f"{counted(self.hosts, 'host')}: {self._findings} with findings, "
            f"{self._incomplete} incomplete, {self._unread.count} could not be read"
        )


class _Named:
    """A number of hosts, the first few by name."""

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

    def words(self, hosts: int) -> str:
        more = self.count - len(self._names)
        rest = f" and {more} more" if more else ""
        return f"{self.count} of {counted(hosts, 'host')}: {', '.join(self._names)}{rest}"
