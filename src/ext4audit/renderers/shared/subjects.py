"""A report by subject: filesystems and host with their verdicts, and what was not judged.

An account without rights hides the same thing from twenty rules: twenty entries on each of a
thousand hosts are more than a reader of alerts takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Remedy, Severity, Suppression
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited
from ext4audit.renderers.shared.rows import Blind, blind_spots
from ext4audit.renderers.shared.words import PHASE_WORDS, disruption_words, listed
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule


class BlindGroup(NamedTuple):
    """One sentence about a host; `is_error` says that it is no hole but a failure.

    `key` is what it is known by on its host.
    """

    host: str
    key: str
    sentence: str
    is_error: bool


def blind_groups(host: Audited, name: str) -> tuple[BlindGroup, ...]:
    """Return what could not be judged; of a host without a report, why there is none."""
    if host.report is None:
        sentence = visible(f"{name} could not be read: {host.error or 'no reason is known'}")
        return (BlindGroup(name, "unread", sentence, is_error=True),)
    groups: dict[tuple[str, str], list[Blind]] = {}
    for blind in blind_spots(name, host.report):
        groups.setdefault((blind.words, blind.hint), []).append(blind)
    return tuple(_group(name, words, hint, met) for (words, hint), met in groups.items())


def _group(name: str, words: str, hint: str, met: Sequence[Blind]) -> BlindGroup:
    rules = dict.fromkeys(blind.rule.code for blind in met if blind.rule)
    places = dict.fromkeys(blind.where for blind in met if blind.rule)
    affects = f", for {listed([*rules])} on {listed([*places])}" if rules else ""
    advice = f" ({hint})" if hint else ""
    is_error = any(blind.error is not None for blind in met)
    sentence = visible(f"{name}: not determined{affects}: {words}{advice}")
    return BlindGroup(name, f"{words}\n{hint}", sentence, is_error)


def evidence_lines(finding: Finding) -> Iterator[str]:
    """Yield what a finding rests on, a line for each citation."""
    for cited in finding.citations:
        yield visible(f"{cited.label}: {cited.value} ({cited.origin})")


def remedy_lines(finding: Finding, *, commands: bool) -> Iterator[str]:
    """Yield each way to cure it, with its commands if wanted."""
    for number, remedy in enumerate(finding.remedies):
        label = "Or" if number else "Remedy"
        yield visible(f"{label} ({disruption_words(remedy)}): {remedy.summary}")
        if commands:
            yield from _commands(remedy)


def _commands(remedy: Remedy) -> Iterator[str]:
    for step in remedy.steps:
        yield visible(f"  {PHASE_WORDS[step.phase]}: {step.command}")
    if remedy.trade_off is not None:
        yield visible(f"  Trade-off: {remedy.trade_off}")


def suppression_words(suppression: Suppression) -> str:
    """Say why a finding is accepted, by whom and until when."""
    owner = f", says {suppression.owner}" if suppression.owner else ""
    expires = f", until {suppression.expires}" if suppression.expires else ""
    return visible(f"{suppression.reason}{owner}{expires}")


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
