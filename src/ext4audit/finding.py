"""Findings: severity and confidence, citations of evidence, and remedies with their steps."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias


class _Ranked(Enum):
    """Values in the order of their definition."""

    @property
    def rank(self) -> int:
        """The position in the order of definition, from 0."""
        return list(type(self)).index(self)


class Severity(_Ranked):
    """How bad a finding is, from worst to mildest."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    def at_least(self, other: "Severity") -> bool:
        """Return whether this is as bad as `other` or worse."""
        return self.rank <= other.rank


class Confidence(_Ranked):
    """How certain it is that the finding applies to this host, from most to least certain."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Disruption(_Ranked):
    """What has to be stopped to apply a remedy, from nothing to everything."""

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
    """One line of evidence: its label, its value, and where it was read.

    `detail` marks a line that is only needed to check the others: the default report omits it.
    `fstab_line` is the number of the cited line of the host's /etc/fstab, from 1, None if it cites
    none: formats for code review show the finding there.
    """

    label: str
    value: str
    origin: str
    detail: bool = False
    fstab_line: int | None = None


class LineEdit(NamedTuple):
    """A line of a text file before and after a change, both without the newline.

    `line_number` counts from 1. Bytes that are not UTF-8 are surrogate escapes. If `is_numbered`
    is false, the number only distinguishes this edit from edits of other lines, and the line is
    found by its text.
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
    """A change of some options of a mounted filesystem; all other options stay in force.

    `before` and `after` are tokens for `mount -o`: ext4 options and flags of mount(8). `is_bind`
    means that only the flags of this mount change, and not those of the superblock.
    """

    mount_point: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    is_bind: bool = False


class Unmount(NamedTuple):
    """An unmount before work on the device; `again` is the command that restores the mount."""

    mount_point: str
    again: str


class NewMount(NamedTuple):
    """A mount of a filesystem that is not mounted there: its rollback is an unmount.

    `done_before` is set if `done` of its step succeeds before the unmount of the remedy as well: it
    tests that something is mounted there, which does not tell that it was mounted anew.
    """

    mount_point: str
    done_before: bool = False


class Check(NamedTuple):
    """A run of e2fsck that repairs what is safe to repair; if it refuses, nothing is mounted.

    If `is_forced` is false, it replays the journal and checks the filesystem only if needed.
    `wholes` are the devices that contain this one: no process may have them open either.
    """

    device: str
    is_forced: bool = True
    wholes: tuple[str, ...] = ()


class Inspection(NamedTuple):
    """A command that changes nothing and stops a remedy if it fails, or waits: nothing to undo.

    `runs_first` is set if a script can run it before it changes anything: it does not depend on the
    other steps of its remedy.
    """

    runs_first: bool = False


class Assignment(NamedTuple):
    """A superblock field or a kernel setting, and the value that a step gives it.

    `device` is the path of the device with the superblock, and "" for a kernel setting. `name` is
    the tune2fs option of the field, `MOUNT_STRING`, or the name of the setting.
    """

    device: str
    name: str
    value: str


UUID_FIELD = "tune2fs -U"
MOUNT_STRING = "the mount options in the superblock"
"""Names of an `Assignment`: the field s_uuid, and the field s_mount_opts."""


class MountCommand(NamedTuple):
    """A mount(8) command in the commands of a step; `text` is how it is written there."""

    text: str
    fstype: str
    options: tuple[str, ...]
    device: str
    mount_point: str


class Programs(NamedTuple):
    """The programs that each command of a step runs, except those that every script needs.

    Each field has the name of the command in `Step`.
    """

    command: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    undo_by_unmount: tuple[str, ...] = ()


E2FSPROGS = frozenset(
    {"debugfs", "dumpe2fs", "e2fsck", "mke2fs", "mkfs.ext3", "mkfs.ext4", "resize2fs", "tune2fs"}
)
"""The programs that open the device of a filesystem."""
WRITING_CHECKS = frozenset({"mktemp"})
"""The programs of checks that write to a filesystem: what only looks leaves these checks out."""


class Setting(NamedTuple):
    """A value that a command replaces; `audited` is a command that succeeds if it is unchanged.

    A value set since the audit would be lost: the rollback restores the audited one.
    """

    audited: str


Change: TypeAlias = (
    LineEdit | NewFile | Remount | Unmount | NewMount | Check | Setting | Inspection | None
)


class Step(NamedTuple):
    """One shell command of a remedy. All names in it are quoted for a POSIX shell.

    `undo` reverts the command, and does nothing if the command has not run; it is empty if there
    is nothing to revert or no way to do so. It unmounts nothing: `undo_by_unmount` reverts the
    command by an unmount, if `undo` is empty or fails. `done` succeeds if the target state is
    already reached; it is empty if nothing can test that. `change` is the same change as data, for
    kinds of changes that a script can make more carefully than a single command.

    The text of a command is not searched. Whoever builds it names its `programs`, what it `sets`,
    the `devices` with filesystems that it works on besides that of the finding, and the `mounts`
    that it contains. `forced` and `forced_undo` are the command and the undo for a filesystem with
    the feature mmp that is mounted. `not_on_bigalloc` and `undo_not_on_bigalloc` mark commands
    that e2fsprogs cannot run with the feature bigalloc. `unmounts` marks a command that begins with
    an unmount and is not the change `Unmount`, such as a rollback.
    """

    phase: Phase
    command: str
    undo: str = ""
    done: str = ""
    change: Change = None
    undo_by_unmount: str = ""
    programs: Programs = Programs()
    sets: tuple[Assignment, ...] = ()
    devices: tuple[str, ...] = ()
    mounts: tuple[MountCommand, ...] = ()
    forced: str = ""
    forced_undo: str = ""
    not_on_bigalloc: bool = False
    undo_not_on_bigalloc: bool = False
    unmounts: bool = False

    @property
    def rollback(self) -> str:
        """The one command that takes it back, by an unmount where nothing else does."""
        if self.undo and self.undo_by_unmount:
            return f"{self.undo} || {self.last_resort}"
        return self.undo or self.undo_by_unmount

    @property
    def rollback_programs(self) -> tuple[str, ...]:
        """The programs that the rollback runs."""
        own = self.programs.undo if self.undo else ()
        return (*own, *(self.programs.undo_by_unmount if self.undo_by_unmount else ()))

    @property
    def last_resort(self) -> str:
        """What takes it back by an unmount, as one member of a list; empty where nothing does."""
        return f"{{ {self.undo_by_unmount}; }}" if self.undo_by_unmount else ""

    @property
    def as_rollback(self) -> "Step":
        """The step that takes this one back."""
        programs = Programs(self.rollback_programs)
        unmounts = bool(self.undo_by_unmount) and not self.undo
        return Step(Phase.ROLLBACK, self.rollback, programs=programs, unmounts=unmounts)


class Remedy(NamedTuple):
    """One way to fix a finding, computed from the evidence.

    `steps` are in the order of execution: a persistent step comes first if a new mount reads what
    it corrects. Checks come last. A remedy without steps is advice.
    """

    summary: str
    disruption: Disruption
    steps: tuple[Step, ...] = ()
    destructive: bool = False
    trade_off: str | None = None

    @property
    def lines(self) -> tuple[Step, ...]:
        """The steps, a check of each edit, and the rollback, which undoes the last step first.

        A substitution that does not find the audited line changes nothing and exits without an
        error, so each edit is verified by its line.
        """
        edits = [step.done for step in self.steps if isinstance(step.change, LineEdit)]
        known = {step.command for step in self.steps}
        checks = (Step(Phase.VERIFY, done) for done in edits if done and done not in known)
        undone = (step.as_rollback for step in reversed(self.steps) if step.rollback)
        return (*self.steps, *checks, *undone)

    @property
    def file_changes(self) -> tuple[LineEdit | NewFile, ...]:
        """The changes of files, in the order of execution."""
        changes = (step.change for step in self.steps)
        return tuple(each for each in changes if isinstance(each, LineEdit | NewFile))


class Suppression(NamedTuple):
    """The acceptance of a finding by the policy, with its reason and its owner.

    `expires` is the last day on which the suppression is valid, an ISO 8601 date.
    """

    reason: str
    owner: str | None = None
    expires: str | None = None


class Finding(NamedTuple):
    """A defect of one subject, with a one-sentence message that includes the consequence.

    `fact` identifies the defect if a rule can find several in one subject, such as the mount
    point of an fstab entry, or an option. It does not depend on device names or measured numbers.
    A finding of the host is about the filesystem whose UUID or mount point its fact is. `number`
    distinguishes findings of one verdict with the same fact, such as equal lines of fstab.
    `suppression` is set if the policy accepts the finding, `known` if it is in the baseline.
    `summary` is the message in one short line of at most about 80 characters, the same for every
    subject that has the defect for the same reason. `of_host` means that the summary applies to
    all filesystems of the host: the default report then shows one line for them, with the worst
    severity. `measured` is set if a measurement of `ext4audit probe` confirms the finding.
    `device` is the subject of a host finding if it is not a filesystem of the report.
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
    number: int = 1

    @property
    def numbered_fact(self) -> str:
        """The fact, unique in its verdict: "/data", then "/data #2"."""
        return self.fact if self.number == 1 else f"{self.fact} #{self.number}".lstrip()

    @property
    def mount_point(self) -> str:
        """The mount point that a finding of the host is about, if that is its fact; else ""."""
        return self.fact if self.fact.startswith("/") else ""

    @property
    def short(self) -> str:
        """The summary, or the message if the rule gives no summary."""
        return self.summary or self.message

    @property
    def counts(self) -> bool:
        """Whether it affects the exit code, being neither suppressed nor in the baseline."""
        return self.suppression is None and not self.known

    @property
    def safest_remedy(self) -> Remedy | None:
        """The remedy that `safest` selects; None if no remedy can be run safely."""
        return safest(self.remedies)

    @property
    def main_remedy(self) -> Remedy | None:
        """The remedy to show if only one is shown: the safest, or else the first."""
        return self.safest_remedy or next(iter(self.remedies), None)


def safest(remedies: Iterable[Remedy]) -> Remedy | None:
    """Return the first of the least disruptive remedies that have steps and destroy no data.

    Returns None if there is no such remedy.
    """
    safe = [each for each in remedies if each.steps and not each.destructive]
    return min(safe, key=lambda remedy: remedy.disruption.rank, default=None)


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Join names with commas for a sentence; above `limit`, add how many more there are."""
    if limit is None or len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"


MOST_NAMED = 3
"""More users or mount points of a filesystem are counted and not named: a host of containers has
hundreds of overlays, and of bind mounts."""


def few(names: Sequence[str]) -> str:
    """Return the first of the names for a sentence, and how many more there are."""
    return listed(names, MOST_NAMED)
