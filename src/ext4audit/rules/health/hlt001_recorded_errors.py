"""HLT001: The kernel recorded errors in this filesystem, and no check has cleared them."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.host import ErrorCounters, Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.error_state import (
    cite_errors,
    counted_errors,
    error_text,
    has_stopped,
    is_marked,
    is_old_record,
    time_of_last_mount,
)


@rule(
    "HLT001",
    "recorded-errors",
    severity=Severity.HIGH,
    since="0.2",
    in_plans=False,
    references=(
        "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-fs-ext4",
        "https://man7.org/linux/man-pages/man8/e2fsck.8.html",
        "https://github.com/prometheus/node_exporter/issues/3113",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    The number of errors that the kernel has recorded in a mounted filesystem, and the details of
    the last one. Severity is high if the last error happened since the filesystem was mounted, in
    the last seven days, or at an unknown time; otherwise it is medium. It is also medium for a
    superblock that is marked "with errors" without a count, and info for warnings since the mount.

    ## Why it matters

    The kernel counts an error when metadata is corrupt or cannot be read. Until e2fsck has repaired
    the metadata, every write can damage more files. The record is stored in the superblock and
    survives reboots. A journal that was aborted before the reboot, or an interrupted e2fsck, leaves
    the mark without a count.

    ## Remedy

    Check the disk first (kernel log, SMART). Then unmount the filesystem and run `e2fsck -f -p`,
    which clears the record.

    ## When to ignore

    Ignore it after a test with `trigger_fs_error`. An old record still needs the check: only e2fsck
    can tell whether the metadata is intact.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted (HLT003 checks its superblock)")
    counters = need(fs.errors)
    yield from cite_errors(fs)
    if counters.errors > 0:
        found = _finding(fs, host, counters)
        yield found
        if found.severity is Severity.MEDIUM:
            need(time_of_last_mount(fs))
        return
    if isinstance(counters.warnings, Known) and counters.warnings.value:
        yield _warned(fs, counters.warnings.value)
    if is_marked(fs):
        yield _marked(fs)
    if counters.warnings is not None:
        need(counters.warnings)


def _finding(fs: Filesystem, host: Host, counters: ErrorCounters) -> Finding:
    which = "" if counters.errors == 1 else "the last "
    last = f", {which}{error_text(counters.last)}" if counters.last else ""
    refused = "the filesystem refuses writes (HLT002)"
    since = refused if has_stopped(fs) else "writes can spread the damage"
    return Finding(
        message=f"The kernel recorded {counted_errors(counters.errors)}{last}: metadata may be "
        f"damaged, and {since}.",
        severity=Severity.MEDIUM if is_old_record(fs, host, counters) else Severity.HIGH,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_errors(fs)),
        remedies=(_remedy(fs),),
        summary="the kernel recorded errors; metadata may be damaged",
    )


def _marked(fs: Filesystem) -> Finding:
    return Finding(
        message="The superblock is marked with errors, although none is counted: metadata may be "
        "damaged until e2fsck has checked it.",
        severity=Severity.MEDIUM,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_errors(fs)),
        remedies=(_remedy(fs),),
        fact="marked",
        summary="the superblock is marked with errors; metadata may be damaged",
    )


def _remedy(fs: Filesystem) -> Remedy:
    see_hlt002 = "Apply the remedy of HLT002: its check also clears this record."
    if has_stopped(fs):
        return Remedy(see_hlt002, Disruption.UNMOUNT)
    return remedies.checking.check_filesystem(fs)


def _warned(fs: Filesystem, warnings: int) -> Finding:
    count = "1 warning" if warnings == 1 else f"{warnings} warnings"
    return Finding(
        message=f"The kernel logged {count} about this filesystem since it was mounted: see dmesg.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(
            Citation("warnings", str(warnings), f"/sys/fs/ext4/{fs.name}/warning_count"),
            *cite_errors(fs),
        ),
        fact="warnings",
        summary="the kernel logged warnings about the filesystem: see dmesg",
    )
