"""DUR008: A file that was replaced without fsync() can be empty or truncated after a crash."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import below
from ext4audit.finding import Confidence, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import (
    cite_mount_points,
    cite_option,
    milder_while_read_only,
    what_else_sets_it,
)
from ext4audit.rules.shared.demands import DATABASES

NAMES = ("auto_da_alloc", "delalloc")
KEPT = ("/etc", "/home", "/root", "/var", "/srv", "/opt")
SCRATCH = ("/var/cache", "/var/tmp", "/var/log")  # noqa: S108 - names of mount points
MESSAGE = (
    "noauto_da_alloc: a file that was replaced by rename, or truncated and rewritten, without "
    "fsync() can be empty or truncated after a crash"
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

    Whether `noauto_da_alloc` is in force together with delayed allocation. Severity is medium on
    the root, below /etc, /home, /root, /var, /srv and /opt, and on the data directory of a
    database; low elsewhere, and below /var/cache, /var/log and /var/tmp; info on a read-only mount.

    ## Why it matters

    Programs replace a file by writing a new one and renaming it over the old one. With delayed
    allocation the rename may reach the disk half a minute before the data, so a crash leaves
    neither the old content nor the new: desktop settings were lost that way in 2009.
    `auto_da_alloc`, on by default since then, starts writeback at rename(), and at the close of a
    truncated file. This is a safety net, not a substitute for fsync().

    ## Remedy

    Enable `auto_da_alloc`; a remount suffices.

    ## When to ignore

    Ignore it on scratch, build and cache volumes, for which PRF002 lists `noauto_da_alloc` as the
    last resort against renames that block; and if every writer calls fsync() before the rename.
    """
    refuse_unmounted(fs)
    options = need(fs.options)
    if need(options.token("auto_da_alloc")) == "auto_da_alloc":
        yield from cite_option(fs, "auto_da_alloc")
        return
    if need(options.token("delalloc")) == "nodelalloc":
        raise NotApplicable("delayed allocation is off, so the option has no effect")
    yield _finding(fs, host)
    need(fs.mounted_here)


def _finding(fs: Filesystem, host: Host) -> Finding:
    severity = Severity.MEDIUM if any(map(_is_persistent, fs.mount_points)) else Severity.LOW
    severity, message = milder_while_read_only(fs, severity, MESSAGE)
    cited = dict.fromkeys(each for name in NAMES for each in cite_option(fs, name))
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(*cited, cite_mount_points(fs, _is_persistent)),
        remedies=(_remedy(fs, host),),
        summary="noauto_da_alloc: files replaced without fsync() can be empty after a crash",
    )


def _is_persistent(point: str) -> bool:
    """Return whether a mount point indicates data that must survive a crash."""
    if below(point, DATABASES):
        return True
    return not below(point, SCRATCH) and (point == "/" or below(point, KEPT))


def _remedy(fs: Filesystem, host: Host) -> Remedy:
    steps = remedies.options.change_option(fs, "auto_da_alloc", "auto_da_alloc")
    where = remedies.remount.elsewhere(fs)
    return Remedy(
        f"Enable auto_da_alloc{where}.{what_else_sets_it(fs, host, 'auto_da_alloc')}",
        remedies.options.disruption(steps),
        steps,
        trade_off="A rename over an existing file waits until the new file is submitted to the "
        "disk: seconds for hundreds of megabytes that are not synced (PRF002).",
    )
