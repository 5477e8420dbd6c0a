"""Findings: severity and confidence, the citations of evidence, and the remedies with steps."""

from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """How bad a finding is, in order from worst to mildest."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    @property
    def rank(self) -> int:
        """The position in the order: 0 is the worst severity."""
        return list(Severity).index(self)

    def at_least(self, other: "Severity") -> bool:
        """Return whether this is as bad as `other` or worse."""
        return self.rank <= other.rank


class Confidence(Enum):
    """How sure the rule is that the finding applies to this host."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Disruption(Enum):
    """What has to be stopped to apply a remedy."""

    ONLINE = "online"
    REMOUNT = "remount"
    UNMOUNT = "unmount"
    REBOOT = "reboot"
    RECREATE = "recreate"


class Phase(Enum):
    """The phase of a remedy in which a command runs, in the order of execution."""

    IMMEDIATE = "immediate"
    PERSISTENT = "persistent"
    VERIFY = "verify"
    ROLLBACK = "rollback"


class Citation(NamedTuple):
    """One line of evidence: its label, its value, and the place where it was read."""

    label: str
    value: str
    origin: str


class Step(NamedTuple):
    """One shell command of a remedy. All names in it are quoted for a POSIX shell."""

    phase: Phase
    command: str


class Remedy(NamedTuple):
    """One way to fix a finding, computed from the evidence.

    `steps` are in the order of execution: a persistent step comes first where a file must be
    corrected before a remount can work. A remedy without steps is advice.
    """

    summary: str
    disruption: Disruption
    steps: tuple[Step, ...] = ()
    destructive: bool = False
    trade_off: str | None = None


class Suppression(NamedTuple):
    """The acceptance of a finding by the policy: its reason, its owner and its last day.

    `expires` is an ISO 8601 date, the last day on which the suppression is valid.
    """

    reason: str
    owner: str | None = None
    expires: str | None = None


class Finding(NamedTuple):
    """A defect of one subject, with a one-sentence message that includes the consequence.

    `fact` identifies what failed where a rule can find several defects in one subject: the mount
    point of an fstab entry, an option. It does not depend on device names or measured numbers.
    `suppression` is set where the policy accepts the finding, `known` where a baseline has it.
    """

    message: str
    severity: Severity
    confidence: Confidence
    citations: tuple[Citation, ...]
    remedies: tuple[Remedy, ...] = ()
    fact: str = ""
    suppression: Suppression | None = None
    known: bool = False

    @property
    def counts(self) -> bool:
        """Whether it affects the exit code: it is neither suppressed nor in the baseline."""
        return self.suppression is None and not self.known
