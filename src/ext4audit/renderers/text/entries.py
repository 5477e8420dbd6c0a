"""The findings of a report by cause: one entry for each rule, severity and summary.

The same defect on twenty filesystems is one entry that names them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Citation, Finding, Remedy
from ext4audit.renderers import listed
from ext4audit.renderers.shared.rows import THE_HOST
from ext4audit.renderers.text.blocks import Look
from ext4audit.report import Report
from ext4audit.rule import Rule

_FACTS_SHOWN = 4
_SUBJECTS_SHOWN = 3
_MOUNT_POINTS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One finding on one filesystem; `filesystem` is None where the host is the subject."""

    filesystem: Filesystem | None
    finding: Finding

    @property
    def label(self) -> str:
        """The first mount point or the device; of the host, what the finding is about."""
        if self.filesystem is None:
            return self.finding.device or self.finding.fact or THE_HOST
        points = self.filesystem.mount_points
        return points[0] if points else self.filesystem.device

    @property
    def full_label(self) -> str:
        """The mount points, and the device behind them."""
        if self.filesystem is None or not self.filesystem.mount_points:
            return self.label
        points = listed(self.filesystem.mount_points, _MOUNT_POINTS_SHOWN)
        return f"{points} ({self.filesystem.device})"


@dataclass(frozen=True, slots=True)
class Entry:
    """The findings of one rule that have the same severity, confidence and summary."""

    rule: Rule
    occurrences: tuple[Occurrence, ...]

    @property
    def first(self) -> Finding:
        """The finding that stands for all of them."""
        return self.occurrences[0].finding

    @property
    def message(self) -> str:
        """The message if all findings have the same, else their summary."""
        messages = {each.finding.message for each in self.occurrences}
        return self.first.message if len(messages) == 1 else self.first.short

    def facts(self) -> tuple[Citation, ...]:
        """Return the evidence that all findings share, without details, a few lines at most."""
        values = [
            {(cited.label, cited.value) for cited in each.finding.citations}
            for each in self.occurrences
        ]
        known = set.intersection(*values)
        plain = [cited for cited in self.first.citations if not cited.detail]
        shared = [cited for cited in plain if (cited.label, cited.value) in known]
        return tuple((shared or plain)[:_FACTS_SHOWN])

    def remedies(self) -> tuple[Remedy, ...]:
        """Return the remedy to show of each finding: the safest, else the first; each once.

        A remedy of the whole host is the same for all its filesystems.
        """
        chosen = (each.finding.main_remedy for each in self.occurrences)
        return tuple({each.steps or each.summary: each for each in chosen if each}.values())

    def subjects(self, total: int, look: Look, *, full: bool = False) -> str:
        """Return the names of the subjects, or how many of `total` filesystems they are."""
        unique = {_key(each): each for each in self.occurrences}
        subjects = list(unique.values())
        labels = _distinct(subjects, _full_label if full else _label)
        if len(labels) <= _SUBJECTS_SHOWN:
            return ", ".join(labels)
        names = _distinct(subjects, _label)
        ends = f"{names[0]} {look.ellipsis} {names[-1]}"
        return f"{_count(subjects, total)} ({ends})"


def entries(report: Report) -> tuple[Entry, ...]:
    """Return the findings that count by cause, the worst first, then by code."""
    filesystems = {fs.id: fs for fs in report.host.filesystems}
    groups: dict[tuple[object, ...], list[tuple[Rule, Occurrence]]] = {}
    for verdict in report.verdicts:
        fs = filesystems.get(verdict.filesystem_id or "")
        for finding in (each for each in verdict.findings if each.counts):
            key = (verdict.rule.code, finding.severity, finding.confidence, finding.short)
            groups.setdefault(key, []).append((verdict.rule, Occurrence(fs, finding)))
    made = [Entry(same[0][0], tuple(each for _, each in same)) for same in groups.values()]
    return tuple(sorted(made, key=lambda entry: (entry.first.severity.rank, entry.rule.code)))


def lines(found: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return one entry a line: summaries of all filesystems of the host share one."""
    same: dict[object, Entry] = {}
    for entry in found:
        key = (entry.rule.code, entry.first.short) if entry.first.of_host else id(entry)
        before = same[key].occurrences if key in same else ()
        same[key] = Entry(entry.rule, (*before, *entry.occurrences))
    return tuple(same.values())


def _key(each: Occurrence) -> str:
    return each.label if each.filesystem is None else each.filesystem.id


def _label(each: Occurrence) -> str:
    return each.label


def _full_label(each: Occurrence) -> str:
    return each.full_label


def _distinct(subjects: Sequence[Occurrence], label: Callable[[Occurrence], str]) -> list[str]:
    """Return the labels in order; filesystems that share a mount point get their devices."""
    times = Counter(map(label, subjects))
    labels = [label(each) if times[label(each)] == 1 else each.full_label for each in subjects]
    return sorted(labels, key=_natural)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts /mnt/d2 before /mnt/d10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _count(subjects: Sequence[Occurrence], total: int) -> str:
    if any(each.filesystem is None for each in subjects):
        return f"{len(subjects)} places"
    return f"{len(subjects)} of {total} filesystems"
