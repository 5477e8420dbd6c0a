"""The HTML report: the section of one filesystem, or of the host as a subject of rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Phase, Remedy, Severity
from ext4audit.renderers.html.filesystem import FilesystemPart, filesystem_part
from ext4audit.renderers.shared.subjects import Subject
from ext4audit.renderers.shared.words import counted, disruption_words, listed
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule

_POINTS_IN_TITLE = 3


@dataclass(frozen=True, slots=True)
class Badge:
    """Words on the colour of a look: a severity, "open" (not judged), "fine" or "info"."""

    words: str
    look: str


@dataclass(frozen=True, slots=True)
class RemedyPart:
    """A remedy; its commands keep their order, because a later one may need an earlier one."""

    remedy: Remedy
    disruption: Badge
    phases: tuple[tuple[Phase, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class FindingPart:
    """A finding with its rule; `shown` is unfolded."""

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
    """What is not known, and the codes of the rules that need it."""

    unknown: Unknown
    needed_by: str


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that raised: its last line, and the lines of its traceback."""

    rule: Rule
    error: str
    traceback: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenVerdicts:
    """The rules that could not be judged: their number, what they need, and those that raised."""

    number: int
    unknowns: tuple[UnknownRow, ...]
    broken: tuple[BrokenRule, ...]


@dataclass(frozen=True, slots=True)
class SubjectSection:
    """One subject of rules; `filesystem` is None for the host itself.

    `nothing_found` is set where there are no `findings`, `open` where a rule could not be judged.
    """

    anchor: str
    name: str
    worst: Badge
    filesystem: FilesystemPart | None
    findings: tuple[FindingPart, ...]
    nothing_found: NothingFound | None
    open: OpenVerdicts | None
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
        open=_open_verdicts(subject) if subject.open else None,
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
    """Return the worst that was found; what is unknown is never shown as fine."""
    if subject.problems:
        return _severity_badge(subject.problems[0][1].severity)
    if subject.open:
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
    """Say that nothing was found, which is fine only where every rule was judged."""
    if len(subject.with_outcome(Outcome.NOT_APPLICABLE)) == len(subject.verdicts):
        return NothingFound(Badge("NOT JUDGED", "info"), "No rule applies.")
    if subject.open:
        sentence = f"No findings, but {counted(len(subject.open), 'rule')} could not be judged."
        return NothingFound(Badge("INCOMPLETE", "open"), sentence)
    if subject.set_aside:
        sentence = "All that was found is set aside, see below."
        return NothingFound(Badge("SET ASIDE", "info"), sentence)
    return NothingFound(Badge("NO FINDINGS", "fine"), "All the rules that apply have passed.")


def _finding(rule: Rule, finding: Finding, *, shown: bool) -> FindingPart:
    return FindingPart(rule, finding, shown, tuple(_remedy(each) for each in finding.remedies))


def _remedy(remedy: Remedy) -> RemedyPart:
    words = disruption_words(remedy)
    disruption = Badge(words.upper(), "critical") if remedy.destructive else Badge(words, "info")
    return RemedyPart(remedy, disruption, tuple(_phases(remedy)))


def _phases(remedy: Remedy) -> Iterator[tuple[Phase, tuple[str, ...]]]:
    for phase, steps in groupby(remedy.steps, key=lambda step: step.phase):
        yield phase, tuple(step.command for step in steps)


def _open_verdicts(subject: Subject) -> OpenVerdicts:
    broken = subject.with_outcome(Outcome.ERROR)
    return OpenVerdicts(
        number=len(subject.open),
        unknowns=_unknown_rows(subject.open),
        broken=tuple(_broken(verdict) for verdict in broken),
    )


def _unknown_rows(verdicts: Sequence[Verdict]) -> tuple[UnknownRow, ...]:
    """Return each unknown once, with the rules that need it."""
    codes: dict[Unknown, dict[str, None]] = {}
    for verdict in verdicts:
        for unknown in verdict.unknowns:
            codes.setdefault(unknown, {})[verdict.rule.code] = None
    return tuple(UnknownRow(unknown, listed(sorted(need))) for unknown, need in codes.items())


def _broken(verdict: Verdict) -> BrokenRule:
    lines = (verdict.note or "no traceback").strip().split("\n")
    return BrokenRule(verdict.rule, lines[-1], tuple(line for line in lines if line))
