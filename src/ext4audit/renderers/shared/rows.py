"""The hosts of a page as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited
from ext4audit.renderers.shared.words import why_words
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
