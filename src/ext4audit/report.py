"""Verdicts and the report: one verdict for each rule and subject, and nothing left out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Host
from ext4audit.finding import Citation, Finding
from ext4audit.rule import Rule


class Outcome(Enum):
    """PASS means: the rule had all the evidence it needed, and it is fine."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    UNDETERMINED = "undetermined"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of one subject.

    `filesystem_id` is None when the subject is the host. `unknowns` are the holes that the
    rule met, also beside findings that survived them. `note` is the reason of a
    NOT_APPLICABLE, the traceback of an ERROR. `evidence` is what a pass rests on.
    """

    rule: Rule
    filesystem_id: str | None
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    evidence: tuple[Citation, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class FixedFinding:
    """A finding of a baseline that is fixed: its rule, its subject as it was called, its fact."""

    rule: str
    subject: str
    fact: str
    message: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where the evidence came from: "live", "snapshot", … and a label for people."""

    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that an audit says. Verdicts are the selected rules times their subjects.

    `fixed` are the findings of a baseline that are gone, None where there was no baseline.
    `notices` are what the policy file has to be told of: suppressions that expired, or match
    nothing.
    """

    source: Source
    host: Host
    verdicts: tuple[Verdict, ...]
    fixed: tuple[FixedFinding, ...] | None = None
    notices: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing that was asked remained unknown."""
        open_outcomes = (Outcome.UNDETERMINED, Outcome.ERROR)
        holes = any(v.outcome in open_outcomes or v.unknowns for v in self.verdicts)
        return not holes and not self.host.gaps

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all verdicts."""
        return tuple(finding for verdict in self.verdicts for finding in verdict.findings)

    @property
    def counted(self) -> tuple[Finding, ...]:
        """The findings that decide the exit code: neither suppressed nor in the baseline."""
        return tuple(finding for finding in self.findings if finding.counts)

    @property
    def suppressed(self) -> int:
        """How many findings the policy accepts."""
        return sum(finding.suppression is not None for finding in self.findings)
