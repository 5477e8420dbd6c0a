"""The report of an audit: its source, its host, and one verdict for each rule and subject."""

from enum import Enum
from typing import NamedTuple

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Host
from ext4audit.finding import Citation, Finding
from ext4audit.rule import Rule


class Outcome(Enum):
    """The outcome of a verdict. PASS: all needed evidence is known, and nothing is wrong."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    UNDETERMINED = "undetermined"
    ERROR = "error"


class Verdict(NamedTuple):
    """The result of one rule for one subject.

    `filesystem_id` is None when the subject is the host. `unknowns` are those that ended the
    rule, also after it made findings. `note` is the reason of a NOT_APPLICABLE or the traceback
    of an ERROR. `evidence` are the citations that justify a PASS.
    """

    rule: Rule
    filesystem_id: str | None
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    evidence: tuple[Citation, ...] = ()
    note: str | None = None


class FixedFinding(NamedTuple):
    """A finding of a baseline that no longer occurs: rule code, label of the subject, fact."""

    rule: str
    subject: str
    fact: str
    message: str


class Source(NamedTuple):
    """The kind of source of the evidence ("live", "snapshot", …) and its label for people."""

    kind: str
    label: str


class Report(NamedTuple):
    """The result of an audit. There is one verdict for each selected rule and subject.

    `fixed` are the findings of the baseline that no longer occur, None without a baseline.
    `notices` report problems of the policy file: suppressions that expired or match nothing.
    """

    source: Source
    host: Host
    verdicts: tuple[Verdict, ...]
    fixed: tuple[FixedFinding, ...] | None = None
    notices: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no verdict lacks evidence and the host has no gaps."""
        open_outcomes = (Outcome.UNDETERMINED, Outcome.ERROR)
        unknown = any(v.outcome in open_outcomes or v.unknowns for v in self.verdicts)
        return not unknown and not self.host.gaps

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all verdicts."""
        return tuple(finding for verdict in self.verdicts for finding in verdict.findings)

    @property
    def counted(self) -> tuple[Finding, ...]:
        """The findings that affect the exit code: neither suppressed nor in the baseline."""
        return tuple(finding for finding in self.findings if finding.counts)

    @property
    def suppressed(self) -> int:
        """The number of findings that the policy suppresses."""
        return sum(finding.suppression is not None for finding in self.findings)


class PlanLine(NamedTuple):
    """One shell command of a plan: its key ("mkfs"), what it is for, and the command."""

    key: str
    purpose: str
    command: str


class PlanAdvice(NamedTuple):
    """The report on a plan beside its verdicts: how it was predicted, and the lines to use.

    `basis` is "simulated" (the real mke2fs made it, in memory) or "computed" (by closed form).
    `assumed` are sentences. `changes` are how the plan behind the lines differs from the one
    that was judged; `clean` means that this plan, judged by the same rules, has no finding of low
    severity or worse and nothing undetermined; `left` names what it has.
    """

    basis: str
    assumed: tuple[str, ...]
    changes: tuple[str, ...]
    clean: bool
    left: tuple[str, ...]
    lines: tuple[PlanLine, ...]
