"""The report by subject: each filesystem and the host, with their verdicts, worst first."""

from __future__ import annotations

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.records import dataclass
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule

_OPEN = frozenset({Outcome.UNDETERMINED, Outcome.ERROR})


@dataclass(frozen=True, slots=True)
class Subject:
    """A filesystem, or the host (None), and the verdicts on it."""

    filesystem: Filesystem | None
    verdicts: tuple[Verdict, ...]

    @property
    def findings(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings that count, with their rules, worst first, then by code."""
        return tuple(pair for pair in self._all if pair[1].counts)

    @property
    def set_aside(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings that do not count: suppressed, or in the baseline."""
        return tuple(pair for pair in self._all if not pair[1].counts)

    @property
    def _all(self) -> list[tuple[Rule, Finding]]:
        said = [
            (verdict.rule, finding) for verdict in self.verdicts for finding in verdict.findings
        ]
        return sorted(said, key=lambda pair: (pair[1].severity.rank, pair[0].code))

    @property
    def notes(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings that only inform."""
        return tuple(pair for pair in self.findings if pair[1].severity is Severity.INFO)

    @property
    def problems(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings that are more than information."""
        return tuple(pair for pair in self.findings if pair[1].severity is not Severity.INFO)

    @property
    def open(self) -> tuple[Verdict, ...]:
        """The verdicts that could not be reached, or not wholly."""
        return tuple(each for each in self.verdicts if each.outcome in _OPEN or each.unknowns)

    def with_outcome(self, outcome: Outcome) -> tuple[Verdict, ...]:
        """Return the verdicts with this outcome, by code."""
        chosen = [verdict for verdict in self.verdicts if verdict.outcome is outcome]
        return tuple(sorted(chosen, key=lambda verdict: verdict.rule.code))


def subjects(report: Report) -> tuple[Subject, ...]:
    """Return the subjects of the report, the one with the worst finding first.

    Equals keep the order of the filesystems, the host last.
    """
    every: tuple[Filesystem | None, ...] = (*report.host.filesystems, None)
    made = [Subject(each, _verdicts_on(report, each)) for each in every]
    return tuple(sorted(made, key=_worst_rank))


def _verdicts_on(report: Report, subject: Filesystem | None) -> tuple[Verdict, ...]:
    wanted = None if subject is None else subject.id
    return tuple(verdict for verdict in report.verdicts if verdict.filesystem_id == wanted)


def _worst_rank(subject: Subject) -> int:
    ranks = [finding.severity.rank for _, finding in subject.findings]
    return min(ranks, default=len(Severity))
