"""PRF007: data=journal writes all data twice and turns direct I/O into buffered I/O."""

from __future__ import annotations

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared import cite_option, milder_while_read_only
from ext4audit.rules.shared.demands import back_to_ordered, data_mode, holds_database

MESSAGE = "data=journal writes all data twice and disables delayed allocation and direct I/O"


@rule(
    "PRF007",
    "data-journal-mode",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `data=journal` is in force. Severity is medium on the data directory of a database, info
    on a read-only mount, and low elsewhere.

    ## Why it matters

    In this mode file data is written to the journal first and to its final location later. The
    kernel disables delayed allocation and `dioread_nolock`, and silently turns direct I/O into
    buffered I/O, so a database with its own cache keeps its data in memory twice.

    ## Remedy

    Mount with `data=ordered`. A remount cannot change the mode: unmount the filesystem and mount it
    again. The root filesystem needs a restart. `chattr +j` sets the mode for single files and
    directories.

    ## When to ignore

    Ignore it on servers that sync many small writes, because one sequential write to the journal is
    faster than many scattered ones, and on appliances that use this mode to survive power failures.
    """
    if data_mode(fs) != "data=journal":
        yield from cite_option(fs, "data")
        return
    severity = Severity.MEDIUM if holds_database(fs) else Severity.LOW
    severity, message = milder_while_read_only(fs, severity, MESSAGE)
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_option(fs, "data")),
        remedies=(
            back_to_ordered(
                fs,
                host,
                trade_off="Data is no longer written atomically with its metadata: as by default, "
                "a crash can leave a file with a mix of old and new data.",
            ),
        ),
        summary="data=journal writes all data twice and disables direct I/O",
    )
    need(fs.mounted_here)
