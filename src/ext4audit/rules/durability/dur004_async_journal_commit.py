"""DUR004: A journal commit may reach the disk before the blocks that it commits."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, need, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.durability import gaps_of, parts_below, worst
from ext4audit.rules.shared import (
    cite_not_in_force,
    cite_option,
    milder_while_read_only,
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

    Whether `journal_async_commit` is in force. Severity is high if a device below has a volatile or
    unknown write cache, info on a read-only mount, and medium otherwise. The kernel refuses the
    option with `data=ordered`, so it always occurs with `data=writeback` or `data=journal`.

    ## Why it matters

    With the option the kernel submits the commit block of the journal together with the blocks that
    it commits, and flushes the cache of the device once per commit instead of twice (measured: 20
    flushes for 20 fsync() calls, not 40). After a power failure, only a checksum shows that a
    transaction is incomplete; the kernel then discards it. The order of file data and commits is
    not guaranteed. A kernel that does not know this feature of the journal cannot mount the
    filesystem.

    ## Remedy

    Remove the option, unmount the filesystem and mount it again: a remount cannot clear the option.

    ## When to ignore

    Ignore it on volumes whose content can be recreated after a power failure.
    """
    refuse_unmounted(fs)
    if not need_in_force(fs, NAME):
        yield cite_not_in_force(fs, NAME)
        return
    severity, confidence, cited = _grade(fs, host)
    message = f"{NAME}: a power failure can keep a journal commit and lose the committed blocks"
    severity, message = milder_while_read_only(fs, severity, message)
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(*dict.fromkeys((*cite_option(fs, NAME), *cite_option(fs, "data"))), *cited),
        remedies=(_remedy(fs, host),),
        summary=f"{NAME}: a power failure can lose committed blocks",
    )
    raise_for(gaps_of(parts_below(fs, need(fs.stack), host)))


def _grade(fs: Filesystem, host: Host) -> tuple[Severity, Confidence, tuple[Citation, ...]]:
    """Grade by the write caches of the leaf devices; an unknown cache counts as volatile."""
    if not isinstance(fs.stack, Known):
        unseen = Citation("devices below", f"unknown: {fs.stack.detail}", fs.stack.what)
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
        trade_off="Each commit flushes the cache of the device twice instead of once.",
    )
