"""Findings: severity and confidence, citations of evidence, remedies with steps; their wording."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple


class _Ranked(Enum):
    """Values in the order of their definition."""

    @property
    def rank(self) -> int:
        """The position in the order, from 0 on."""
        return list(type(self)).index(self)


class Severity(_Ranked):
    """How bad a finding is, in order from worst to mildest."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    def at_least(self, other: "Severity") -> bool:
        """Return whether this is as bad as `other` or worse."""
        return self.rank <= other.rank


class Confidence(_Ranked):
    """How sure the rule is that the finding applies to this host, from surest on."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Disruption(_Ranked):
    """What has to be stopped to apply a remedy, in order from nothing to everything."""

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
    """One line of evidence: its label, its value, and the place where it was read.

    `detail` marks a line that a reader needs only to check the others: the default report leaves
    it out.
    """

    label: str
    value: str
    origin: str
    detail: bool = False


class LineEdit(NamedTuple):
    """A line of a text file before and after a change, both without the newline.

    `line_number` counts from 1. Bytes that are not UTF-8 are surrogate escapes. Where
    `is_numbered` is unset, the number only tells this edit from those of other lines: the text
    finds the line.
    """

    path: str
    line_number: int
    before: str
    after: str
    is_numbered: bool = True

    @property
    def where(self) -> str:
        """The place of the edit, such as `line 3 of /etc/fstab`."""
        return f"{f'line {self.line_number}' if self.is_numbered else 'a line'} of {self.path}"


class NewFile(NamedTuple):
    """A small text file that a remedy creates, with its whole content."""

    path: str
    content: str


class Remount(NamedTuple):
    """A change of the options of a mounted filesystem; all that is not named stays in force.

    `before` and `after` are words for `mount -o`: ext4 options and flags of mount(8). `is_bind`
    is set where the flags of this mount alone change, and not those of the superblock.
    """

    mount_point: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    is_bind: bool = False


class Unmount(NamedTuple):
    """An unmount before work on the device; `again` is the command that mounts it as it was."""

    mount_point: str
    again: str


class Check(NamedTuple):
    """A run of e2fsck that repairs what is safe to repair; where it refuses, nothing is mounted.

    `is_forced` is unset where it replays the journal, and checks only what needs a check. `wholes`
    are the devices that the device is a part of: no process may have them open either.
    """

    device: str
    is_forced: bool = True
    wholes: tuple[str, ...] = ()


class Setting(NamedTuple):
    """A value that a command replaces as a whole; `audited` succeeds while it is the audited one.

    What another value held would be lost: the rollback restores the audited one.
    """

    audited: str


class Step(NamedTuple):
    """One shell command of a remedy. All names in it are quoted for a POSIX shell.

    `undo` takes back what the command did, and changes nothing where it has not run; it is empty
    where nothing is to be taken back, or nothing can. `done` succeeds where the state that the
    command leads to holds already; empty where only running it tells. `change` is the same change
    as data, where it is of a kind that a script can make more carefully than one command.
    """

    phase: Phase
    command: str
    undo: str = ""
    done: str = ""
    change: LineEdit | NewFile | Remount | Unmount | Check | Setting | None = None


class Remedy(NamedTuple):
    """One way to fix a finding, computed from the evidence.

    `steps` are in the order of execution: a persistent step comes first where a new mount reads
    what it corrects. The checks come last. A remedy without steps is advice.
    """

    summary: str
    disruption: Disruption
    steps: tuple[Step, ...] = ()
    destructive: bool = False
    trade_off: str | None = None

    @property
    def lines(self) -> tuple[Step, ...]:
        """The steps, the checks of all edits, and the rollback: what takes back each, last first.

        A substitution that finds another line than the audited one changes nothing and says
        nothing: each edit is verified by its line.
        """
        edits = [step.done for step in self.steps if isinstance(step.change, LineEdit)]
        known = {step.command for step in self.steps}
        checks = (Step(Phase.VERIFY, done) for done in edits if done and done not in known)
        undone = (step.undo for step in reversed(self.steps) if step.undo)
        return (*self.steps, *checks, *(Step(Phase.ROLLBACK, command) for command in undone))

    @property
    def file_changes(self) -> tuple[LineEdit | NewFile, ...]:
        """What the steps change in files, in the order of execution."""
        changes = (step.change for step in self.steps)
        return tuple(each for each in changes if isinstance(each, LineEdit | NewFile))


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
    `summary` is the message in one short line of at most about 80 characters; it is the same for
    every subject that has the defect for the same reason. `of_host` means that the summary is of
    all filesystems of the host: the default report then has one line for them, with the worst
    severity. `measured` is set where a measurement of `ext4audit probe` confirms the finding.
    `device` is what a finding of the host is about where that is no filesystem of the report.
    """

    message: str
    severity: Severity
    confidence: Confidence
    citations: tuple[Citation, ...]
    remedies: tuple[Remedy, ...] = ()
    fact: str = ""
    suppression: Suppression | None = None
    known: bool = False
    summary: str = ""
    of_host: bool = False
    measured: bool = False
    device: str = ""

    @property
    def short(self) -> str:
        """The summary, or the message where the rule gives none."""
        return self.summary or self.message

    @property
    def counts(self) -> bool:
        """Whether it affects the exit code: it is neither suppressed nor in the baseline."""
        return self.suppression is None and not self.known

    @property
    def safest_remedy(self) -> Remedy | None:
        """The safest of its remedies; None where none can be run."""
        return safest(self.remedies)

    @property
    def main_remedy(self) -> Remedy | None:
        """The remedy to show where one is shown: the safest, else the first."""
        return self.safest_remedy or next(iter(self.remedies), None)


def safest(remedies: Iterable[Remedy]) -> Remedy | None:
    """Return the remedy that stops the least, the first of equals; None where none can be run.

    Only a remedy with steps can be run, and one that destroys data is never safe.
    """
    safe = [each for each in remedies if each.steps and not each.destructive]
    return min(safe, key=lambda remedy: remedy.disruption.rank, default=None)


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Return names for a sentence, with commas; beyond `limit`, how many more there are."""
    if limit is None or len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"
