"""PRF008: Every read of a file writes its inode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS, Mount
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.remedies.mounting import FlagChange, by_remount, remountable, seen_here
from ext4audit.remedies.remount import fstab_line
from ext4audit.remedies.shell import quote
from ext4audit.rule import NotApplicable, Said, rule
from ext4audit.rules.shared.demands import demanded

GENTLER = frozenset({"relatime", "noatime"})
STRICT = frozenset({"strictatime", "norelatime"})
TABLE = "/proc/self/mountinfo"


@rule(
    "PRF008",
    "strict-atime",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/mount.8.html",
        "https://clickhouse.com/docs/operations/tips",
    ),
)
def check(fs: Filesystem, host: Host) -> Said:
    """## What it checks

    Writable mounts with strictatime, which no mount table prints: it is what is left where
    neither relatime nor noatime is shown. Mounts with lazytime pass, because the times then stay
    in memory. That noatime is missing is no finding: relatime, the default, is gentle enough.

    ## Why it matters

    Each read of a file changes the access time in its inode, and the journal writes the inode out.
    A directory that is only read, by a web server or a backup, causes writes all day long, and a
    database that reads at random dirties as many inodes.

    ## Remedy

    Remount with relatime, which changes the time once a day at most, or with noatime, which
    databases recommend and which changes it never; with what fstab asks for already, if it does.

    ## When to ignore

    Where exact access times are needed: some audits, and old programs that look for mail
    that was not read. relatime serves newer ones.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")
    mounts = seen_here(fs)
    strict = [mount for mount in mounts if _is_strict(mount)]
    if not strict:
        yield from (_cite(mount) for mount in mounts)
        return
    points = ", ".join(dict.fromkeys(mount.mount_point for mount in strict))
    yield Finding(
        message=f"Every read of a file below {points} changes the file's inode, so that reading "
        "causes writes.",
        severity=Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=tuple(_cite(mount) for mount in strict),
        remedies=tuple(_remedy(fs, strict, word) for word in _words(fs, host, strict)),
        fact=points,
    )


def _words(fs: Filesystem, host: Host, strict: Sequence[Mount]) -> Sequence[str]:
    """Return the words that cure it: both, or what a profile demands or fstab asks for already."""
    lines = filter(None, (fstab_line(fs, mount) for mount in strict))
    said = [ATIME_OPTIONS[w] for line in lines for w in line.options if w in ATIME_OPTIONS]
    asked = [word for word in (*demanded(fs, host), *said) if word in GENTLER]
    return asked[:1] or ("relatime", "noatime")


def _is_strict(mount: Mount) -> bool:
    words = {*mount.mount_options, *mount.super_options}
    return words.isdisjoint(GENTLER | {"ro", "lazytime"})


def _cite(mount: Mount) -> Citation:
    shown = ",".join(dict.fromkeys((*mount.mount_options, *mount.super_options)))
    return Citation(f"mount table, {mount.mount_point}", shown, TABLE)


def _remedy(fs: Filesystem, strict: Sequence[Mount], word: str) -> Remedy:
    why = "as it is by default" if word == "relatime" else "where nothing asks for access times"
    return Remedy(
        f"Remount with {word}, {why}.{_forgotten(fs, strict)}",
        Disruption.REMOUNT,
        _steps(fs, strict, word),
        trade_off="Access times are then right to a day only."
        if word == "relatime"
        else "Access times stand still: what deletes files by their age of access goes wrong.",
    )


def _forgotten(fs: Filesystem, strict: Sequence[Mount]) -> str:
    """Return the sentence on what no command can make last, empty where fstab is read."""
    if all(fstab_line(fs, mount) for mount in strict):
        return ""
    return " Where no fstab entry mounts it: the unit or script that does must ask for it too."


def _steps(fs: Filesystem, strict: Sequence[Mount], word: str) -> tuple[Step, ...]:
    """Return the commands for all strict mounts, in the order to run them; none for a part."""
    if not all(remountable(mount) for mount in strict):
        return ()
    steps = [step for mount in strict for step in _steps_for(fs, mount, word)]
    order = Phase.PERSISTENT, Phase.IMMEDIATE, Phase.VERIFY, Phase.ROLLBACK
    return tuple(sorted(steps, key=lambda step: order.index(step.phase)))


def _steps_for(fs: Filesystem, mount: Mount, word: str) -> tuple[Step, ...]:
    change = FlagChange(
        before=mount,
        after=replace(mount, mount_options=(*mount.mount_options, word)),
        words=(word,),
        back=("strictatime",),
        drop=STRICT | (GENTLER - {word}),
        add=(word,) if word == "noatime" else (),
    )
    shown = f"findmnt -no VFS-OPTIONS -M {quote(mount.mount_point)} | grep -qw {word}"
    return by_remount(fs, change, (shown,))
