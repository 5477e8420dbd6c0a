"""HLT002: After an error the filesystem refuses every write, and may still be called rw."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, is_surely
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.error_state import WriteStop, cite_errors, write_stop_of

CLAIM = {
    Confidence.CONFIRMED: "It refuses writes",
    Confidence.LIKELY: "It probably refuses writes",
    Confidence.POSSIBLE: "It may refuse writes",
}


@rule(
    "HLT002",
    "forced-readonly-hidden",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://git.kernel.org/linus/d3476f3dad4a",
        "https://github.com/prometheus/node_exporter/issues/3717",
        "https://github.com/longhorn/longhorn/issues/13452",
        "https://github.com/xunholy/k8s-gitops/issues/4143",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether a mounted filesystem has stopped accepting writes: the words emergency_ro and
    shutdown in its options; a journal that has given up; an error since the mount under
    errors=remount-ro; or a superblock that is read-only while fstab asks for rw.

    ## Why it matters

    Kernels from 6.12 on, and stable ones with the same change (6.1 and 6.6 among them), do not
    set the read-only flag after an error: the mount table and statvfs(2) go on saying rw while
    every write fails. Monitoring that looks for ro sees nothing, and services fail one by one.

    ## Remedy

    Stop what uses it, unmount it, check it with e2fsck and mount it again; reboot for the root.
    `mount -o remount,rw` is no cure: it can report success and repair nothing.

    ## When to ignore

    After a test with `trigger_fs_error` or the shutdown ioctl. What is only possible can also be
    an error that happened before errors=remount-ro was switched on.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    yield from cite_errors(fs)
    if isinstance(fs.journal_errno, Known):
        errno = fs.journal_errno
        yield Citation("journal errno", str(errno.value), errno.origin)
    stop = write_stop_of(fs)
    if stop is not None:
        yield _finding(fs, stop)


def _finding(fs: Filesystem, stop: WriteStop) -> Finding:
    called = "" if is_surely(fs.read_only) and not _shown_rw(fs) else " and says rw"
    return Finding(
        message=f"{CLAIM[stop.confidence]}{called}: {stop.because}. What writes to it then fails "
        "until it is unmounted and checked.",
        severity=stop.severity,
        confidence=stop.confidence,
        citations=(*stop.citations, *cite_errors(fs)),
        remedies=(*_find_out(stop), remedies.offline.check_filesystem(fs, try_write=True)),
    )


def _find_out(stop: WriteStop) -> Iterator[Remedy]:
    """Yield the advice to try a write, where only recorded times indicate the state."""
    if stop.confidence is Confidence.POSSIBLE:
        yield Remedy(
            summary="Find out first: create a file on it and sync it. Where that works, "
            "errors=remount-ro was switched on after the error, and HLT001 says the rest.",
            disruption=Disruption.ONLINE,
        )


def _shown_rw(fs: Filesystem) -> bool:
    return any("rw" in mount.super_options for mount in fs.mounts)
