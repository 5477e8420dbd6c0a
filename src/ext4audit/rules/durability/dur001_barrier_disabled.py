"""DUR001: Write barriers are disabled, so fsync() does not flush the write cache of the disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ext4audit import remedies
from ext4audit.evidence import Known, is_surely, need, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, listed
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.durability import Part, gaps_of, parts_below, still_claims_write_back, worst
from ext4audit.rules.shared import cite_option, what_else_sets_it

NO_FLUSH = "Write barriers are disabled, so fsync() and journal commits do not flush write caches"

VOLATILE_LOSS = "write barriers are disabled: a power failure can lose synced data"
SUMMARIES = {
    Severity.CRITICAL: VOLATILE_LOSS,
    Severity.HIGH: VOLATILE_LOSS,
    Severity.MEDIUM: "write barriers are disabled on a loop device",
    Severity.INFO: "write barriers are disabled, which has no effect here",
}
"""Each summary is true for every cause of its severity."""
NAMED = 3


@rule(
    "DUR001",
    "barrier-disabled",
    severity=Severity.CRITICAL,
    since="0.1",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://docs.kernel.org/block/writeback_cache_control.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `nobarrier` (also spelled `barrier=0`) is in force, set by fstab, by a remount or by the
    superblock. No mount table shows what the superblock sets. Severity depends on the devices at
    the bottom of the stack: it is critical if any has a volatile write cache ("write back"), high
    if a write cache is unknown or belongs to an instance store, and info if all report "write
    through", because the option then has no effect, and on a read-only mount. It is critical as
    well above the device-mapper targets thin, cache (in writeback mode), clone, writecache,
    integrity, vdo, zoned and pcache, which keep completed writes or their mappings in memory until
    a flush. A loop device is medium, unless the filesystem that holds its backing file has no
    barriers either: then the devices below that filesystem decide. The devices below an external
    journal count as well. The rule does not use the cache mode of a stacked device, because md
    always reports "write back".

    ## Why it matters

    Without barriers ext4 sends no cache flush at all, not even for fsync(). The disk may keep
    acknowledged data in volatile memory for any time and write it in any order. A power failure
    then loses transactions that a database had confirmed. It can also leave a journal commit on
    the disk without the blocks that it commits, which corrupts the filesystem.

    ## Remedy

    Enable barriers; a remount suffices. If they were disabled for speed, use fewer and larger
    transactions, relax the setting of the database if its data may be lost, or use drives with
    power-loss protection, which complete flushes immediately.

    ## When to ignore

    Ignore it on volumes whose content may be lost with the machine: instance stores, scratch, CI. A
    crash of the guest alone loses no data there. Vendors disagree about the option. Microsoft's
    guide for Azure premium disks recommended `barrier=0` with host caching None or ReadOnly. Red
    Hat advises against it on virtual machines, and puts the cost of barriers at about 3 %.
    ClickHouse no longer recommends `nobarrier`. An administrator can override `queue/write_cache`
    with "write through": this changes what the kernel assumes, not what the disk does.
    """
    refuse_unmounted(fs)
    options = need(fs.options)
    if need(options.token("barrier")) == "barrier":
        yield from cite_option(fs, "barrier")
        return
    if not isinstance(fs.stack, Known):
        unseen = Citation("devices below", f"unknown: {fs.stack.detail}", fs.stack.what)
        sentence = "it is unknown whether a write cache is volatile"
        yield _finding(fs, host, (Severity.HIGH, Confidence.POSSIBLE), sentence, (unseen,))
        need(fs.stack)
        return
    parts = parts_below(fs, fs.stack.value, host)
    claim = still_claims_write_back(fs.stack.value)
    citations = (*_citations(parts), *((claim,) if claim else ()))
    yield _finding(fs, host, _grade(parts, claim), _sentence(parts), citations)
    raise_for(gaps_of(parts))


def _grade(parts: tuple[Part, ...], claim: Citation | None) -> tuple[Severity, Confidence]:
    """Grade by the worst device; less confident if the stacked device reports write back."""
    part = worst(parts)
    doubtful = part.severity is Severity.INFO and claim is not None
    return part.severity, Confidence.LIKELY if doubtful else part.confidence


def _sentence(parts: tuple[Part, ...]) -> str:
    """Return the sentence about the worst devices."""
    decisive = worst(parts)
    names = [part.device for part in parts if part.sentence == decisive.sentence]
    return f"{listed(list(dict.fromkeys(names)), NAMED)}: {decisive.sentence}"


def _citations(parts: tuple[Part, ...]) -> Iterator[Citation]:
    """Cite each device; adjacent devices with the same value and origin share a citation."""
    for (value, origin), same in groupby(parts, lambda part: part.citation[1:3]):
        labels = list(dict.fromkeys(part.citation.label for part in same))
        yield Citation(listed(labels, 1), value, origin)


def _finding(
    fs: Filesystem,
    host: Host,
    grade: tuple[Severity, Confidence],
    sentence: str,
    citations: tuple[Citation, ...],
) -> Finding:
    severity, confidence = grade
    message = f"{NO_FLUSH}; {sentence}"
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{message}. It is mounted read-only, so no data is at risk until it is writable"
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(*cite_option(fs, "barrier"), *citations),
        remedies=_remedies(fs, host),
        summary=SUMMARIES[severity],
    )


def _remedies(fs: Filesystem, host: Host) -> tuple[Remedy, ...]:
    steps = remedies.options.change_option(fs, "barrier", "barrier")
    where = remedies.remount.elsewhere(fs)
    return (
        Remedy(
            f"Enable barriers{where}.{what_else_sets_it(fs, host, 'barrier')}",
            remedies.options.disruption(steps),
            steps,
            trade_off="Every fsync() waits for a flush: negligible on drives with power-loss "
            "protection; work that syncs often can be ten times slower on consumer drives.",
        ),
        Remedy(
            "If it was set for speed: group commits in the application, relax the setting of the "
            "database (synchronous_commit, innodb_flush_log_at_trx_commit) if the last seconds may "
            "be lost, run disposable jobs under eatmydata, or use drives with power-loss "
            "protection. data=writeback is not a substitute.",
            Disruption.ONLINE,
        ),
    )
