"""DUR004: A journal commit may reach the disk before what it commits."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, Undetermined, is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.durability import parts_below, worst
from ext4audit.rules.shared import (
    cite_not_in_force,
    cite_option,
    need_in_force,
    what_else_sets_it,
)

NAME = "journal_async_commit"
VOLATILE = frozenset({Severity.CRITICAL, Severity.HIGH})


@rule(
    "DUR004",
    "async-journal-commit",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "fs/ext4/super.c: can't mount with journal_async_commit in data=ordered mode",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `journal_async_commit` is in force, whoever set it. It is high where a device below
    has a volatile write cache, or one that cannot be seen; medium on others; info while it is
    mounted read-only. The kernel refuses the option with data=ordered, so that it always comes
    with data=writeback or data=journal.

    ## Why it matters

    With it the journal's commit block is sent together with the blocks that it commits, and a
    commit flushes the device's cache once where it otherwise flushes twice (measured: 20 for 20
    fsync() calls, not 40). Only a checksum then tells, after a power failure, that the
    transaction is not all there: it is thrown away, and nothing orders the data of the files
    against it. Kernels that do not know the journal's feature cannot mount the disk.

    ## Remedy

    Leave the option out. That needs an unmount: no word of a remount takes it back.

    ## When to ignore

    Volumes whose content can be made again after a power failure.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    if not need_in_force(fs, NAME):
        yield cite_not_in_force(fs, NAME)
        return
    severity, confidence, cited = _grade(fs, host)
    message = f"{NAME}: a power failure can keep a commit of the journal and lose what it commits"
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{message}, once it is mounted writable"
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(*dict.fromkeys((*cite_option(fs, NAME), *cite_option(fs, "data"))), *cited),
        remedies=(_remedy(fs, host),),
    )
    gap = worst(parts_below(fs, need(fs.stack), host)).gap
    if gap is not None:
        raise Undetermined((gap,))


def _grade(fs: Filesystem, host: Host) -> tuple[Severity, Confidence, tuple[Citation, ...]]:
    """Grade by the write caches below; an unknown one is taken for volatile."""
    if not isinstance(fs.stack, Known):
        unseen = Citation("devices below", f"not known: {fs.stack.detail}", fs.stack.what)
        return Severity.HIGH, Confidence.POSSIBLE, (unseen,)
    parts = parts_below(fs, fs.stack.value, host)
    part = worst(parts)
    severity = Severity.HIGH if part.severity in VOLATILE else Severity.MEDIUM
    return severity, part.confidence, tuple(each.citation for each in parts)


def _remedy(fs: Filesystem, host: Host) -> Remedy:
    return Remedy(
        f"Mount it without {NAME}.{remedies.mounting.left_by_hand(fs)}"
        f"{what_else_sets_it(fs, host, NAME)}",
        remedies.mounting.disruption_of_new_mount(fs),
        remedies.mounting.change_by_new_mount(fs, {NAME: remedies.mounting.NOT_SET}),
        trade_off="Each commit flushes the device's cache twice and not once.",
    )
