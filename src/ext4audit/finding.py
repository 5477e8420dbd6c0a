"""What a rule says: a finding with its evidence and its remedies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad it is; the order of definition is from worst to mildest."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst severity, counting up to the mildest."""
        return list(Severity).index(self)

    def at_least(self, other: Severity) -> bool:
        """Whether this is as bad as `other` or worse."""
        return self.rank <= other.rank


class Confidence(Enum):
    """How sure the rule is that the finding applies to this host."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Disruption(Enum):
    """What must be stopped to apply a remedy."""

    ONLINE = "online"
    REMOUNT = "remount"
    UNMOUNT = "unmount"
    REBOOT = "reboot"
    RECREATE = "recreate"


class Phase(Enum):
    """When a remedy's command is run; in the order in which a person runs them."""

    IMMEDIATE = "immediate"
    PERSISTENT = "persistent"
    VERIFY = "verify"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Citation:
    """One line of evidence: what it is, what it says, and where it was read."""

    label: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Step:
    """One shell command of a remedy. All names in it are quoted for a POSIX shell."""

    phase: Phase
    command: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to cure a finding, computed from the evidence.

    `steps` are in the order in which they must be run: where the file must be corrected before
    a remount can work, the persistent step stands first. A remedy without steps is advice.
    """

    summary: str
    disruption: Disruption
    steps: tuple[Step, ...] = ()
    destructive: bool = False
    trade_off: str | None = None


@dataclass(frozen=True, slots=True)
class Suppression:
    """Why somebody accepts a finding: the reason, who answers for it, and until which day.

    `expires` is a date as ISO 8601 writes it, the last day on which it holds.
    """

    reason: str
    owner: str | None = None
    expires: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with one subject, said in one sentence of consequence.

    `fact` names what failed where a rule can find several things in one subject: the mount point
    of an fstab entry, an option. It stays the same over renamed devices and changed numbers.
    `suppression` says that the policy accepts it, `known` that a baseline has it already.
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
        """Whether it decides the exit code: neither suppressed nor in the baseline."""
        return self.suppression is None and not self.known
