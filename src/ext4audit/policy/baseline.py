"""Baselines: what an earlier report has, what is new since, and what is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ext4audit.finding import Finding, Severity
from ext4audit.policy.earlier import Earlier, Key, KnownFinding, name_of, superblock_key, word_of
from ext4audit.records import dataclass, replace
from ext4audit.report import GoneFinding, Outcome, Report, Verdict

Pair: TypeAlias = tuple[str, str]
"""A rule and a superblock."""
CHECKED = frozenset({Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE})
"""Outcomes of a rule that could look: a finding that it no longer makes is fixed."""


@dataclass(frozen=True, slots=True)
class KnownHost:
    """One report of a baseline: the host's name, its superblocks, and what was found there."""

    name: str
    superblocks: frozenset[str]
    findings: tuple[KnownFinding, ...]


def known_host(document: Mapping[str, Any]) -> KnownHost:
    """Return what one report in JSON, version 1, knows.

    Raises KeyError, TypeError, ValueError or AttributeError for a document that is none.
    """
    superblocks = frozenset(superblock_key(name_of(fs, "id")) for fs in document["filesystems"])
    return KnownHost(name_of(document["host"], "name"), superblocks, known_findings(document))


def known_findings(document: Mapping[str, Any]) -> tuple[KnownFinding, ...]:
    """Return the findings of one report in JSON, version 1; raises as `known_host`."""
    subjects = {name_of(fs, "id"): _subject(fs) for fs in document["filesystems"]}
    return tuple(
        KnownFinding(
            rule=word_of(verdict["rule"]),
            superblock=superblock_key(subject_of(verdict)),
            fact=name_of(finding, "fact") if "fact" in finding else None,
            severity=Severity(finding["severity"]),
            subject=subjects.get(subject_of(verdict) or "", "the host"),
            message=name_of(finding, "message"),
            suppressed=finding.get("suppression") is not None,
        )
        for verdict in document["verdicts"]
        for finding in verdict["findings"]
    )


def subject_of(verdict: Mapping[str, Any]) -> str | None:
    """Return the id of a verdict's filesystem, None where it is about the host."""
    return None if verdict["filesystem"] is None else name_of(verdict, "filesystem")


def against(report: Report, baseline: Sequence[KnownFinding]) -> Report:
    """Return the report with the findings of the baseline marked, and those that are fixed.

    What has become worse is new, and so is what only a suppression accepted that holds no more.
    What could not be checked again is not fixed.
    """
    earlier = Earlier(baseline)

    def mark(verdict: Verdict, finding: Finding) -> Finding:
        accepted = finding.suppression is not None
        if earlier.has(key_of(verdict, finding), finding.severity, accepted=accepted):
            return replace(finding, known=True)
        return finding

    verdicts = [replace(v, findings=tuple(mark(v, f) for f in v.findings)) for v in report.verdicts]
    still = (key_of(v, f) for v in report.verdicts for f in v.findings)
    gone = tuple(_gone(earlier.without(still), _checked(report)))
    return replace(report, verdicts=tuple(verdicts), fixed=gone)


def key_of(verdict: Verdict, finding: Finding) -> Key:
    """Return what a finding is known by."""
    return verdict.rule.code, superblock_key(verdict.filesystem_id), finding.fact


def checked(said: Iterable[tuple[Pair, Outcome, bool]]) -> frozenset[Pair]:
    """Return what was judged with all that it needed, from outcomes and whether holes were met.

    Copies of one filesystem count as one superblock: all of them must have been seen.
    """
    every = list(said)
    open_ = {pair for pair, outcome, holes in every if holes or outcome not in CHECKED}
    return frozenset(pair for pair, _, _ in every) - open_


def _checked(report: Report) -> frozenset[Pair]:
    return checked(
        ((v.rule.code, superblock_key(v.filesystem_id)), v.outcome, bool(v.unknowns))
        for v in report.verdicts
    )


def _gone(findings: Iterable[KnownFinding], seen: frozenset[Pair]) -> Iterator[GoneFinding]:
    for each in findings:
        if each.pair in seen:
            yield GoneFinding(each.rule, each.subject, each.fact or "", each.message)


def _subject(filesystem: Mapping[str, Any]) -> str:
    points: Sequence[object] = filesystem["mount_points"]
    device = name_of(filesystem, "device")
    return f"{device} on {word_of(points[0])}" if points else device
