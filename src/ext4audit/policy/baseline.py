"""Baselines: what an earlier report has, what is new since, and what is fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ext4audit.finding import Finding, Severity
from ext4audit.records import dataclass, replace
from ext4audit.report import GoneFinding, Outcome, Report, Verdict

Key: TypeAlias = tuple[str, str, str]
"""Rule, superblock (UUID where it has one; "" for the host), and the fact that failed."""
CHECKED = frozenset({Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE})
"""Outcomes of a rule that could look: a finding that it no longer makes is fixed."""


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of a baseline; `subject` is what its filesystem was called there."""

    rule: str
    superblock: str
    fact: str
    severity: Severity
    subject: str
    message: str

    @property
    def key(self) -> Key:
        """What stays the same when devices are renamed and numbers change."""
        return self.rule, self.superblock, self.fact


def known_findings(document: Mapping[str, Any]) -> tuple[KnownFinding, ...]:
    """Return the findings of one report in JSON, version 1.

    Raises KeyError, TypeError, ValueError or AttributeError for a document that is none.
    """
    subjects = {fs["id"]: _subject(fs) for fs in document["filesystems"]}
    return tuple(
        KnownFinding(
            rule=verdict["rule"],
            superblock=superblock_key(verdict["filesystem"]),
            fact=finding.get("fact") or "",
            severity=Severity(finding["severity"]),
            subject=subjects.get(verdict["filesystem"], "the host"),
            message=finding["message"],
        )
        for verdict in document["verdicts"]
        for finding in verdict["findings"]
    )


def against(report: Report, baseline: Sequence[KnownFinding]) -> Report:
    """Return the report with the findings of the baseline marked, and those that are fixed.

    What has become worse is new. What could not be checked again is not fixed.
    """
    severities = {known.key: known.severity for known in baseline}

    def mark(verdict: Verdict, finding: Finding) -> Finding:
        before = severities.get(key_of(verdict, finding))
        same = before is not None and before.at_least(finding.severity)
        return replace(finding, known=True) if same else finding

    verdicts = [replace(v, findings=tuple(mark(v, f) for f in v.findings)) for v in report.verdicts]
    return replace(report, verdicts=tuple(verdicts), fixed=tuple(_fixed(report, baseline)))


def key_of(verdict: Verdict, finding: Finding) -> Key:
    """Return what a finding is known by."""
    return verdict.rule.code, superblock_key(verdict.filesystem_id), finding.fact


def superblock_key(filesystem_id: str | None) -> str:
    """Return what a superblock is known by: clones that share a UUID are told apart by device."""
    return filesystem_id or ""


def _fixed(report: Report, baseline: Sequence[KnownFinding]) -> Iterator[GoneFinding]:
    still = {key_of(v, f) for v in report.verdicts for f in v.findings}
    checked = {
        (v.rule.code, superblock_key(v.filesystem_id))
        for v in report.verdicts
        if v.outcome in CHECKED and not v.unknowns
    }
    for known in baseline:
        if known.key not in still and (known.rule, known.superblock) in checked:
            yield GoneFinding(known.rule, known.subject, known.fact, known.message)


def _subject(filesystem: Mapping[str, Any]) -> str:
    points: Sequence[str] = filesystem["mount_points"]
    device: str = filesystem["device"]
    return f"{device} on {points[0]}" if points else device
