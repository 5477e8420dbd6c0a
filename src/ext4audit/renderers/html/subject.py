"""The section of one subject in the HTML report: a filesystem, or the host itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity
from ext4audit.renderers import listed
from ext4audit.renderers.html.filesystem import (
    FilesystemLine,
    FilesystemPart,
    filesystem_line,
    filesystem_part,
)
from ext4audit.renderers.html.finding import Badge, Place
from ext4audit.renderers.shared.subjects import Subject, traceback_lines, whose_error
from ext4audit.renderers.shared.terms import counted
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule

_POINTS_IN_TITLE = 3


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
    """A rule that raised: its last line, the lines of its traceback, and whose mistake it is."""

    rule: Rule
    error: str
    traceback: tuple[str, ...]
    whose: str


@dataclass(frozen=True, slots=True)
class Undetermined:
    """The verdicts that were not determined: their number, the unknowns, the rules that raised."""

    number: int
    unknowns: tuple[UnknownRow, ...]
    broken: tuple[BrokenRule, ...]


@dataclass(frozen=True, slots=True)
class SubjectSection:
    """One subject of rules; `filesystem` is None for the host itself, and in a fleet.

    `line` is the filesystem in one line, for a fleet. `entries` are its findings, by code.
    `nothing_found` is set where there are none, `undetermined` where a verdict was not determined.
    A fleet has only the numbers of `passed` and `not_applicable`.
    """

    anchor: str
    name: str
    worst: Badge
    entries: tuple[Place, ...]
    filesystem: FilesystemPart | None
    line: FilesystemLine | None
    nothing_found: NothingFound | None
    undetermined: Undetermined | None
    passed: tuple[Verdict, ...]
    not_applicable: tuple[Verdict, ...]


def subject_section(
    subject: Subject, anchor: str, entries: Sequence[Place], *, brief: bool
) -> SubjectSection:
    """Return the section of a subject; `brief` is for one of many hosts."""
    fs = subject.filesystem
    return SubjectSection(
        anchor=anchor,
        name=subject_name(fs),
        worst=_worst_badge(subject),
        entries=tuple(entries),
        filesystem=None if fs is None or brief else filesystem_part(fs),
        line=filesystem_line(fs) if fs is not None and brief else None,
        nothing_found=None if subject.findings else _nothing_found(subject),
        undetermined=_undetermined(subject) if subject.undetermined else None,
        passed=() if brief else subject.with_outcome(Outcome.PASS),
        not_applicable=() if brief else subject.with_outcome(Outcome.NOT_APPLICABLE),
    )


def subject_name(fs: Filesystem | None) -> str:
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
        sentence = "All findings are suppressed or in the baseline."
        return NothingFound(Badge("SET ASIDE", "info"), sentence)
    return NothingFound(Badge("NO FINDINGS", "fine"), "All rules that apply passed.")


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
    traceback = tuple(line for line in lines if line)
    return BrokenRule(verdict.rule, lines[-1], traceback, whose_error(verdict.rule))
