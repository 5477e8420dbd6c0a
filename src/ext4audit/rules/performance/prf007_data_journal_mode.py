"""PRF007: data=journal writes all data twice, and turns direct I/O into buffered I/O."""

from __future__ import annotations

from ext4audit.evidence import is_surely
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared import cite_option
from ext4audit.rules.shared.demands import back_to_ordered, data_mode, holds_database

MESSAGE = "data=journal: all data is written twice, and delayed allocation and direct I/O are off"


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

    Whether `data=journal` is in force, whoever set it. It is low, medium where a database keeps
    its data, and info while it is mounted read-only.

    ## Why it matters

    In this mode file data goes through the journal as well: it is written there first and to
    its place later. The kernel turns delayed allocation and dioread_nolock off, and what a
    program opens for direct I/O is buffered without a word, so that a database which manages
    its own cache keeps everything twice in memory.

    ## Remedy

    Return to data=ordered. No kernel changes the mode by remount: it takes an unmount, or a
    restart for the root. Single files and directories can have the mode by `chattr +j`.

    ## When to ignore

    Servers that sync many small writes, where one sequential write into the journal is faster
    than many scattered ones, and appliances that chose it to survive power cuts.
    """
    if data_mode(fs) != "data=journal":
        yield from cite_option(fs, "data")
        return
    severity = Severity.MEDIUM if holds_database(fs) else Severity.LOW
    message = MESSAGE
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{MESSAGE}, once it is mounted writable"
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_option(fs, "data")),
        remedies=(
            back_to_ordered(
                fs,
                host,
                trade_off="Data is no longer written atomically with its metadata: a crash can "
                "leave a file half old and half new, as it can by default.",
            ),
        ),
    )
