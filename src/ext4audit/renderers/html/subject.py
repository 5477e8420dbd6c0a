"""The section of one subject in the HTML report: a filesystem, or the host itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Remedy, Severity
from ext4audit.renderers.html.filesystem import FilesystemPart, filesystem_part
from ext4audit.renderers.shared.commands import PhaseLines, phases
from ext4audit.renderers.shared.subjects import Subject, traceback_lines
from ext4audit.renderers.shared.terms import counted, disruption_text, listed
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule

_POINTS_IN_TITLE = 3


@dataclass(frozen=True, slots=True)
class Badge:
    """Text on the colour of a CSS class: a severity, "open" (undetermined), "fine" or "info"."""

    text: str
    look: str


@dataclass(frozen=True, slots=True)
class RemedyPart:
    """A remedy; its commands keep their order, because a later one may depend on an earlier."""

    remedy: Remedy
    disruption: Badge
    phases: tuple[PhaseLines, ...]


@dataclass(frozen=True, slots=True)
class FindingPart:
    """A finding with its rule; it is unfolded if `shown`."""

    rule: Rule
    finding: Finding
    shown: bool
    remedies: tuple[RemedyPart, ...]


@dataclass(frozen=True, slots=True)
class NothingFound:
    """Why a subject has no findings: a badge and a sentence."""

    badge: Badge
    sentence: str


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """What is unknown, and the codes of the rules that need it."""

    unknown: Unknown
    needed_by: str


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that raised: its last line, and the lines of its traceback."""

    rule: Rule
    error: str
    traceback: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Undetermined:
    """The verdicts that were not determined: their number, the unknowns, the rules that raised."""

    number: int
    unknowns: tuple[UnknownRow, ...]
    broken: tuple[BrokenRule, ...]


@dataclass(frozen=True, slots=True)
class SubjectSection:
    """One subject of rules; `filesystem` is None for the host itself.

    `nothing_found` is set where there are no `findings`, `undetermined` where a verdict was not
    determined.
    """

    anchor: str
    name: str
    worst: Badge
    filesystem: FilesystemPart | None
    findings: tuple[FindingPart, ...]
    nothing_found: NothingFound | None
    undetermined: Undetermined | None
    set_aside: tuple[FindingPart, ...]
    passed: tuple[Verdict, ...]
    not_applicable: tuple[Verdict, ...]


def subject_section(subject: Subject, anchor: str) -> SubjectSection:
    """Return the section of a subject; `anchor` is the target of links to it."""
    fs = subject.filesystem
    return SubjectSection(
        anchor=anchor,
        name=_name(fs),
        worst=_worst_badge(subject),
        filesystem=None if fs is None else filesystem_part(fs),
        findings=tuple(
            _finding(rule, finding, shown=finding.severity is not Severity.INFO)
            for rule, finding in subject.findings
        ),
        nothing_found=None if subject.findings else _nothing_found(subject),
        undetermined=_undetermined(subject) if subject.undetermined else None,
        set_aside=tuple(_finding(*pair, shown=True) for pair in subject.set_aside),
        passed=subject.with_outcome(Outcome.PASS),
        not_applicable=subject.with_outcome(Outcome.NOT_APPLICABLE),
    )


def _name(fs: Filesystem | None) -> str:
    """Return the device of a subject and its mount points."""
    if fs is None:
        return "The host itself"
    where = f" on {listed(fs.mount_points, _POINTS_IN_TITLE)}" if fs.mount_points else ""
    return f"{fs.device}{where}"


def _worst_badge(subject: Subject) -> Badge:
    """Return the worst finding; a subject with gaps is never shown as fine."""
    if subject.problems:
        return _severity_badge(subject.problems[0][1].severity)
    if subject.undetermined:
        return Badge("INCOMPLETE", "open")
    if subject.notes:
        return _severity_badge(Severity.INFO)
    if subject.set_aside:
        return Badge("SET ASIDE", "info")
    passed = subject.with_outcome(Outcome.PASS)
    return Badge("OK", "fine") if passed else Badge("NOT JUDGED", "info")


def _severity_badge(severity: Severity) -> Badge:
    return Badge(severity.value.upper(), severity.value)


def _nothing_found(subject: Subject) -> NothingFound:
    """Return why there are no findings; that is fine only where every rule was determined."""
    if subject.no_rule_applies:
        return NothingFound(Badge("NOT JUDGED", "info"), "No rule applies.")
    if subject.undetermined:
        sentence = (
            f"No findings, but {counted(len(subject.undetermined), 'rule')} could not be judged."
        )
        return NothingFound(Badge("INCOMPLETE", "open"), sentence)
    if subject.set_aside:
        sentence = "All that was found is set aside, see below."
        return NothingFound(Badge("SET ASIDE", "info"), sentence)
    return NothingFound(Badge("NO FINDINGS", "fine"), "All the rules that apply have passed.")


def _finding(rule: Rule, finding: Finding, *, shown: bool) -> FindingPart:
    return FindingPart(rule, finding, shown, tuple(_remedy(each) for each in finding.remedies))


def _remedy(remedy: Remedy) -> RemedyPart:
    text = disruption_text(remedy)
    disruption = Badge(text.upper(), "critical") if remedy.destructive else Badge(text, "info")
    return RemedyPart(remedy, disruption, tuple(phases(remedy)))


def _undetermined(subject: Subject) -> Undetermined:
    broken = subject.with_outcome(Outcome.ERROR)
    return Undetermined(
        number=len(subject.undetermined),
        unknowns=_unknown_rows(subject.undetermined),
        broken=tuple(_broken(verdict) for verdict in broken),
    )


def _unknown_rows(verdicts: Sequence[Verdict]) -> tuple[UnknownRow, ...]:
    """Return each unknown once, with the codes of the rules that need it."""
    codes: dict[Unknown, dict[str, None]] = {}
    for verdict in verdicts:
        for unknown in verdict.unknowns:
            codes.setdefault(unknown, {})[verdict.rule.code] = None
    return tuple(UnknownRow(unknown, listed(sorted(need))) for unknown, need in codes.items())


def _broken(verdict: Verdict) -> BrokenRule:
    lines = traceback_lines(verdict)
    return BrokenRule(verdict.rule, lines[-1], tuple(line for line in lines if line))
