"""Correct a plan: the fewest changes that leave nothing to find."""

from __future__ import annotations

from ext4audit.facts.plan import Plan
from ext4audit.finding import Severity
from ext4audit.planning.changes import Change, Judge, improvements, open_count, weights_of
from ext4audit.records import dataclass
from ext4audit.report import Report

MOST_CHANGES = 8


@dataclass(frozen=True, slots=True)
class Correction:
    """A plan after the changes that make it better, and what the rules say of it then."""

    plan: Plan
    report: Report
    changes: tuple[Change, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing is left of low severity or worse, and nothing is undetermined."""
        return not self.left

    @property
    def left(self) -> tuple[str, ...]:
        """The rules with a finding of low severity or worse, and how many are undetermined."""
        holes = open_count(self.report)
        found = tuple(sorted(weights_of(self.report, Severity.LOW)))
        return (*found, f"{holes} not determined") if holes else found


def correct(plan: Plan, judge: Judge) -> Correction:
    """Change a plan as little as makes it better, one change at a time; notes are left alone."""
    report = judge(plan)
    changes: list[Change] = []
    while weights_of(report, Severity.LOW) and len(changes) < MOST_CHANGES:
        better = next(improvements(plan, report, judge, Severity.LOW), None)
        if better is None:
            break
        change, report = better
        plan = change.plan
        changes.append(change)
    return Correction(plan, report, tuple(changes))
