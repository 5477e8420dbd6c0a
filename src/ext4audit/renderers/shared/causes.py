"""Findings of a host by cause: one entry where several subjects have the same defect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding
from ext4audit.renderers.shared.subjects import Subject, subjects
from ext4audit.report import Report
from ext4audit.rule import Rule


class Found(NamedTuple):
    """One finding and its subject; `filesystem` is None for the host."""

    filesystem: Filesystem | None
    finding: Finding


class Cause(NamedTuple):
    """The findings of one rule with the same severity, confidence and short text.

    They also agree on whether they count, and on why not.
    """

    rule: Rule
    found: tuple[Found, ...]

    @property
    def first(self) -> Finding:
        """The finding on the first subject."""
        return self.found[0].finding

    @property
    def filesystems(self) -> tuple[Filesystem | None, ...]:
        """The subjects, each once; None is the host."""
        by_id = {fs.id if fs else None: fs for fs, _ in self.found}
        return tuple(by_id.values())


def causes(report: Report) -> tuple[Cause, ...]:
    """Return the findings that count by cause, worst first, then by code."""
    every = subjects(report)
    return _grouped((subject, *pair) for subject in every for pair in subject.findings)


def causes_set_aside(report: Report) -> tuple[Cause, ...]:
    """Return the findings that do not count, because of the policy or of a baseline."""
    every = subjects(report)
    return _grouped((subject, *pair) for subject in every for pair in subject.set_aside)


def _grouped(found: Iterable[tuple[Subject, Rule, Finding]]) -> tuple[Cause, ...]:
    groups: dict[object, Cause] = {}
    for subject, rule, finding in found:
        key = (rule.code, finding.severity, finding.confidence, finding.short)
        entry = groups.setdefault((key, finding.suppression, finding.known), Cause(rule, ()))
        added = (*entry.found, Found(subject.filesystem, finding))
        groups[key, finding.suppression, finding.known] = entry._replace(found=added)
    order = sorted(groups.values(), key=lambda each: (each.first.severity.rank, each.rule.code))
    return tuple(order)
