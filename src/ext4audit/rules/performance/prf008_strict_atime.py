"""PRF008: Every read of a file updates its access time on disk."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS, Mount
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared.demands import demanded


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

    Whether writable mounts have `strictatime`. No mount table prints this option: `strictatime` is
    in force if neither `relatime` nor `noatime` is shown. Mounts with `lazytime` pass, because they
    keep the times in memory. `relatime`, the default, passes as well.

    ## Why it matters

    Each read of a file updates the access time in its inode, and the journal writes the inode.
    A directory tree that a web server or a backup only reads causes writes all day long.

    ## Remedy

    Remount with `relatime`, which updates the time once a day and after each change of the file, or
    with `noatime`, which never updates it and which vendors of databases recommend. If fstab
    already has one of them, the remedy uses it.

    ## When to ignore

    Ignore it if exact access times are needed: by some audits, and by old programs that detect
    unread mail. `relatime` is sufficient for newer ones.
    """
    refuse_unmounted(fs)
    if need(fs.read_only):
        raise NotApplicable("it is read-only")
    mounts = remedies.flags.seen_here(fs)
    strict = [mount for mount in mounts if _is_strict(mount)]
    if not strict:
        yield from (_cite(mount) for mount in mounts)
        return
    points = ", ".join(dict.fromkeys(mount.mount_point for mount in strict))
    yield Finding(
        message=f"Every read of a file below {points} updates its access time, so reading causes "
        "writes.",
        severity=Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=tuple(_cite(mount) for mount in strict),
        remedies=tuple(_remedy(fs, strict, wanted) for wanted in _wanted(fs, host, strict)),
        fact=points,
        summary="strictatime: every read of a file causes a write",
    )


def _wanted(fs: Filesystem, host: Host, strict: Sequence[Mount]) -> Sequence[str]:
    """Return the flags to offer: both, or the one that a profile requires or fstab sets."""
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
    return Citation(f"mount table, {mount.mount_point}", shown, MOUNT_TABLE)


def _remedy(fs: Filesystem, strict: Sequence[Mount], wanted: str) -> Remedy:
    why = "the default" if wanted == "relatime" else "if no program needs access times"
    return Remedy(
        f"Remount with {wanted}, {why}.{_not_persistent(fs, strict)}",
        Disruption.REMOUNT,
        remedies.flags.relax_access_times(fs, strict, wanted),
        trade_off="Access times are then accurate to one day."
        if wanted == "relatime"
        else "Access times are no longer updated: jobs that delete files by access time fail.",
    )


def _not_persistent(fs: Filesystem, strict: Sequence[Mount]) -> str:
    """Return the sentence on mounts without an fstab entry, empty if there are none."""
    if all(remedies.remount.fstab_line(fs, mount) for mount in strict):
        return ""
    return f" It has a mount without an fstab entry: also correct {remedies.mounted_by(fs)}."
