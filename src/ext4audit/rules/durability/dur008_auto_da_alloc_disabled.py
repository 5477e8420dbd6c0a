"""DUR008: A file that was replaced without fsync() can be empty or short after a crash."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_option, what_else_sets_it
from ext4audit.rules.shared.demands import below, holds_database

NAMES = ("auto_da_alloc", "delalloc")
KEPT = ("/etc", "/home", "/root", "/var", "/srv", "/opt")
SCRATCH = ("/var/cache", "/var/tmp", "/var/log")  # noqa: S108 - names of mount points
MESSAGE = (
    "noauto_da_alloc: a file that a program replaced by rename, or truncated and wrote again, "
    "without fsync() can be empty or short after a crash"
)


@rule(
    "DUR008",
    "auto-da-alloc-disabled",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://thunk.org/tytso/blog/2009/03/12/delayed-allocation-and-the-zero-length-file-problem/",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `noauto_da_alloc` is in force together with delayed allocation, whoever set it. It is
    medium on the root, below /etc, /home, /root, /var, /srv and /opt, and where a database
    keeps its data; low elsewhere, and below /var/cache, /var/log and /var/tmp; info while it is
    mounted read-only.

    ## Why it matters

    Programs replace a file by writing a new one and renaming it over the old. With delayed
    allocation the rename may be on the disk half a minute before the data, so that a crash
    leaves neither the old content nor the new: so desktop settings were lost in 2009, when
    ext4 was new. auto_da_alloc, on by default since, starts the writing at the rename, and at
    the close of a file that had been truncated. It is a safety net and no substitute for fsync().

    ## Remedy

    Turn auto_da_alloc on; it works by remount, at once.

    ## When to ignore

    Scratch, build and cache volumes, where PRF002 names noauto_da_alloc as the last resort
    against renames that stall; and where every writer calls fsync() before it renames.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    options = need(fs.options)
    if need(options.token("auto_da_alloc")) == "auto_da_alloc":
        yield from cite_option(fs, "auto_da_alloc")
        return
    if need(options.token("delalloc")) == "nodelalloc":
        raise NotApplicable("delayed allocation is off, without which the option does nothing")
    yield _finding(fs, host)


def _finding(fs: Filesystem, host: Host) -> Finding:
    severity = Severity.MEDIUM if _holds_what_must_last(fs) else Severity.LOW
    message = MESSAGE
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{MESSAGE}, once it is mounted writable"
    points = ", ".join(fs.mount_points) or "none in this mount namespace"
    cited = dict.fromkeys(each for name in NAMES for each in cite_option(fs, name))
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(*cited, Citation("mount points", points, "/proc/self/mountinfo")),
        remedies=(_remedy(fs, host),),
    )


def _holds_what_must_last(fs: Filesystem) -> bool:
    """Whether a mount point says that files of lasting worth are replaced there."""
    lasting = [point for point in fs.mount_points if not below(point, SCRATCH)]
    return "/" in lasting or holds_database(fs) or any(below(point, KEPT) for point in lasting)


def _remedy(fs: Filesystem, host: Host) -> Remedy:
    steps = remedies.options.change_option(fs, "auto_da_alloc", "auto_da_alloc")
    where = "" if steps else f", {remedies.remount.without_mount(fs)}"
    return Remedy(
        f"Turn auto_da_alloc on{where}.{what_else_sets_it(fs, host, 'auto_da_alloc')}",
        remedies.options.disruption(steps) if steps else Disruption.REMOUNT,
        steps,
        trade_off="A rename over an existing file waits until the new one is submitted to the "
        "disk: seconds for hundreds of megabytes that nobody synced (PRF002).",
    )
