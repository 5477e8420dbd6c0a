"""PRF008: Every read of a file writes its inode."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS, Mount
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
)
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.demands import demanded

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
def check(fs: Filesystem, host: Host) -> RuleOutput:
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
    mounts = remedies.flags.seen_here(fs)
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
        remedies=tuple(_remedy(fs, strict, wanted) for wanted in _wanted(fs, host, strict)),
        fact=points,
    )


def _wanted(fs: Filesystem, host: Host, strict: Sequence[Mount]) -> Sequence[str]:
    """Return the flags that cure it: both, or what a profile demands or fstab sets already."""
    lines = filter(None, (remedies.remount.fstab_line(fs, mount) for mount in strict))
    in_fstab = [ATIME_OPTIONS[o] for line in lines for o in line.options if o in ATIME_OPTIONS]
    configured = [
        flag for flag in (*demanded(fs, host), *in_fstab) if flag in remedies.flags.GENTLER
    ]
    return configured[:1] or ("relatime", "noatime")


def _is_strict(mount: Mount) -> bool:
    options = {*mount.mount_options, *mount.super_options}
    return options.isdisjoint(remedies.flags.GENTLER | {"ro", "lazytime"})


def _cite(mount: Mount) -> Citation:
    shown = ",".join(dict.fromkeys((*mount.mount_options, *mount.super_options)))
    return Citation(f"mount table, {mount.mount_point}", shown, TABLE)


def _remedy(fs: Filesystem, strict: Sequence[Mount], wanted: str) -> Remedy:
    why = "as it is by default" if wanted == "relatime" else "where nothing asks for access times"
    return Remedy(
        f"Remount with {wanted}, {why}.{_not_persistent(fs, strict)}",
        Disruption.REMOUNT,
        remedies.flags.relax_access_times(fs, strict, wanted),
        trade_off="Access times are then right to a day only."
        if wanted == "relatime"
        else "Access times stand still: what deletes files by their age of access goes wrong.",
    )


def _not_persistent(fs: Filesystem, strict: Sequence[Mount]) -> str:
    """Return the sentence on what no step can make persistent, empty where fstab mounts all."""
    if all(remedies.remount.fstab_line(fs, mount) for mount in strict):
        return ""
    return " Where no fstab entry mounts it: the unit or script that does must ask for it too."
