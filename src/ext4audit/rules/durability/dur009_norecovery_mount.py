"""DUR009: norecovery skips the journal replay: the filesystem is inconsistent or unprotected."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, Unknown, for_wording, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import cite_not_in_force, cite_option, need_in_force, what_else_sets_it

NAME = "norecovery"
INSPECTED = (
    " e2fsck checks it first, without repairs: if it reports errors, copy the disk before you "
    "repair it."
)


class State:
    """What norecovery does to a filesystem: the message of the finding, and its summary.

    An Enum of them would take a millisecond of each scan.
    """

    __slots__ = ("message", "summary")

    def __init__(self, message: str, summary: str) -> None:
        self.message = message
        self.summary = summary


_STALE = "norecovery: the journal is not replayed, so the content is inconsistent"
WRITABLE = State(
    "norecovery on a writable mount: the filesystem runs without a journal, so a crash corrupts "
    "it, and the unmount discards the changes in the old journal",
    "norecovery on a writable mount: no journal protects it",
)
UNREPLAYED = State(_STALE, _STALE)
PERHAPS = State(
    "norecovery: if the journal needs recovery, the content is inconsistent",
    "norecovery: if the journal needs recovery, the content is inconsistent",
)
SNAPSHOT = State(
    f"{_STALE}, as expected of a snapshot",
    "norecovery on a snapshot: the journal is not replayed",
)
CLEAN = State(
    "norecovery on a read-only mount: the journal is empty, so the option has no effect",
    "norecovery has no effect: the journal is empty",
)
NO_JOURNAL = State(
    "norecovery on a filesystem without a journal: the option has no effect, but a journal that is "
    "created would not be used",
    "norecovery has no effect: there is no journal",
)


@rule(
    "DUR009",
    "norecovery-mount",
    severity=Severity.CRITICAL,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `norecovery`, also spelled `noload`, is in force. Severity is critical on a writable
    mount. On a read-only mount it is medium if the superblock shows that the journal needs
    recovery, and info if the journal is empty or it is a snapshot: a device below is one of
    device-mapper (dm-snapshot), or a filesystem with the same UUID is mounted writable. Without a
    journal the option has no effect: severity is then low on a writable mount, where a journal may
    be created (DUR005), and info elsewhere.

    ## Why it matters

    Without the replay the metadata is in the state of the crash: files seem missing or contain
    blocks of other files. The kernel refuses to mount such a filesystem writable, but allows a
    remount to make it writable: the filesystem then runs without a journal, and the unmount marks
    the old journal as replayed, which loses its content (seen on Linux 6.18).

    ## Remedy

    Unmount the filesystem and mount it without the option: this mount replays the journal. After a
    writable mount, which ran without a journal, run e2fsck first. On a read-only device, no mount
    can replay the journal.

    ## When to ignore

    Ignore it during forensics and data recovery from a failing disk, and on read-only mounts of
    snapshots of live volumes.
    """
    refuse_unmounted(fs)
    if not need_in_force(fs, NAME):
        yield cite_not_in_force(fs, NAME)
        return
    severity, confidence, state = _grade(fs, host)
    yield Finding(
        message=f"{state.message}.",
        severity=severity,
        confidence=confidence,
        citations=(*cite_option(fs, NAME), *_cite_features(fs)),
        remedies=(_remedy(fs, host),),
        summary=state.summary,
    )
    if not _is_writable(fs):
        raise_for(each for each in (fs.read_only, fs.superblock) if isinstance(each, Unknown))


def _grade(fs: Filesystem, host: Host) -> tuple[Severity, Confidence, State]:
    if isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal:
        severity = Severity.LOW if _is_writable(fs) else Severity.INFO
        return severity, Confidence.CONFIRMED, NO_JOURNAL
    if _is_writable(fs):
        return Severity.CRITICAL, Confidence.CONFIRMED, WRITABLE
    if not isinstance(fs.superblock, Known):
        return Severity.MEDIUM, Confidence.POSSIBLE, PERHAPS
    if "needs_recovery" not in fs.superblock.value.features:
        return Severity.INFO, Confidence.CONFIRMED, CLEAN
    if _is_snapshot(fs, host):
        return Severity.INFO, Confidence.LIKELY, SNAPSHOT
    confirmed = isinstance(fs.read_only, Known)
    return (
        Severity.MEDIUM,
        Confidence.CONFIRMED if confirmed else Confidence.LIKELY,
        UNREPLAYED,
    )


def _is_writable(fs: Filesystem) -> bool:
    return isinstance(fs.read_only, Known) and not fs.read_only.value


def _is_snapshot(fs: Filesystem, host: Host) -> bool:
    """Return whether a device below is a dm-snapshot, or a writable mount has the same UUID.

    Thin volumes, ZFS volumes and disks of an array show no sign of being a snapshot.
    """
    stack = for_wording(fs.stack, None)
    below = stack.walk() if stack is not None else ()
    live = (each for each in (*host.filesystems, *host.lower) if _is_writable(each))
    is_copy = fs.uuid is not None and any(each.uuid == fs.uuid for each in live)
    return is_copy or any(device.kind == "dm-snapshot" for device in below)


def _cite_features(fs: Filesystem) -> tuple[Citation, ...]:
    if not isinstance(fs.superblock, Known):
        return ()
    present = "needs_recovery" in fs.superblock.value.features
    value = "needs_recovery" if present else "no needs_recovery"
    return (Citation("features", value, fs.superblock.origin),)


def _remedy(fs: Filesystem, host: Host) -> Remedy:
    *_, state = _grade(fs, host)
    replay = state not in {CLEAN, NO_JOURNAL}
    is_read_only = isinstance(fs.read_only, Known) and fs.read_only.value
    unsure = state is not NO_JOURNAL and not is_read_only
    return Remedy(
        f"Mount it without norecovery.{INSPECTED if unsure else ''}"
        f"{remedies.mounting.left_by_hand(fs)}{what_else_sets_it(fs, host, NAME)}",
        remedies.mounting.disruption_of_new_mount(fs),
        remedies.mounting.change_by_new_mount(
            fs, {NAME: remedies.mounting.NOT_SET}, inspect=unsure, replay=replay
        ),
        trade_off="The replay writes to the disk, also for a read-only mount: take an image first "
        "if the state after the crash is needed as evidence."
        if replay
        else "",
    )
