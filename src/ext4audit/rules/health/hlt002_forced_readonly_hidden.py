"""HLT002: The filesystem refuses all writes after an error, although it may be shown as rw."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, is_surely
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared.error_state import WriteStop, cite_errors, write_stop_of

CLAIM = {
    Confidence.CONFIRMED: "The filesystem refuses writes",
    Confidence.LIKELY: "The filesystem probably refuses writes",
    Confidence.POSSIBLE: "The filesystem may refuse writes",
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

    Whether a mounted filesystem refuses writes: the option `emergency_ro` or `shutdown` is in
    force; the journal is aborted; an error happened since the mount under `errors=remount-ro`; or
    the superblock is read-only while fstab sets rw.

    ## Why it matters

    Linux 6.12 and later, and stable kernels with the same change (6.1 and 6.6 among them), do not
    set the read-only flag after an error: the mount table and statvfs(2) still show rw while every
    write fails. Monitoring that looks for ro detects nothing, and services fail one after another.

    ## Remedy

    Stop the programs that use the filesystem, unmount it, check it with e2fsck and mount it again;
    for the root filesystem, reboot. Do not rely on `mount -o remount,rw`: it can report success
    without any repair.

    ## When to ignore

    Ignore it after a test with `trigger_fs_error` or the shutdown ioctl. If confidence is possible,
    the error may also have happened before `errors=remount-ro` was set.
    """
    refuse_unmounted(fs)
    yield from cite_errors(fs)
    if isinstance(fs.journal_errno, Known):
        errno = fs.journal_errno
        yield Citation("journal errno", str(errno.value), errno.origin)
    stop = write_stop_of(fs)
    if stop is not None:
        yield _finding(fs, stop)


def _finding(fs: Filesystem, stop: WriteStop) -> Finding:
    shown_rw = any("rw" in mount.super_options for mount in fs.mounts)
    called = " although it is shown as rw" if shown_rw or not is_surely(fs.read_only) else ""
    return Finding(
        message=f"{CLAIM[stop.confidence]}{called}: {stop.because}. Unmount and check it to make "
        "it writable again.",
        severity=stop.severity,
        confidence=stop.confidence,
        citations=(*stop.citations, *_record(fs)),
        remedies=(*_test_first(stop), remedies.checking.check_filesystem(fs, try_write=True)),
        summary=f"{CLAIM[stop.confidence].replace('The', 'the', 1)} after an error",
    )


def _record(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the recorded errors; all but the last citation, the latest error, are detail."""
    cited = tuple(cite_errors(fs))
    return (*(each._replace(detail=True) for each in cited[:-1]), *cited[-1:])


def _test_first(stop: WriteStop) -> Iterator[Remedy]:
    """Yield the advice to try a write if only recorded times indicate the state."""
    if stop.confidence is Confidence.POSSIBLE:
        yield Remedy(
            summary="Test first: create a file on it and sync it. If that works, errors=remount-ro "
            "was set after the error: see HLT001.",
            disruption=Disruption.ONLINE,
        )
