"""DUR001: Write barriers are off, so that fsync() does not flush the disk's write cache."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, Undetermined, is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.durability import Part, parts_below, still_claims_write_back, worst
from ext4audit.rules.shared import cite_option, what_else_sets_it

NO_FLUSH = "Barriers are off: neither fsync() nor a journal commit flushes the write cache"


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

    Whether `nobarrier` (also spelled `barrier=0`) is in force on an ext4, ext3 or ext2
    superblock that the ext4 driver serves, whoever set it: fstab, a remount, or the superblock,
    where no mount table shows it. How bad it is depends on the devices at the bottom of the
    stack. Any with a volatile write cache ("write back") makes it critical. Where all say
    "write through" the option does nothing (info). A loop device is judged by the filesystem
    that holds its file; a device whose cache cannot be seen is taken for dangerous (high).
    The word of a stacked device does not count: md always says "write back".

    ## Why it matters

    Without barriers ext4 sends no cache flush at all, not even for fsync(). A disk then keeps
    acknowledged data in volatile memory for as long as it likes and writes in the order it
    likes. A power failure loses transactions that a database had confirmed, and can write the
    journal's commit before what it commits: not only the last seconds are lost, but the
    filesystem itself is damaged.

    ## Remedy

    Turn barriers on; it works by remount, at once. Where it was done for speed, write fewer
    and larger transactions, relax the database's own setting on machines whose data may be
    lost, or use drives with power-loss protection, which answer flushes at once.

    ## When to ignore

    On volumes whose content may vanish with the machine: instance stores, scratch, CI. A crash
    of the guest alone loses nothing there. Vendors disagree: Microsoft's guide for Azure premium
    disks asked for `barrier=0` where host caching is None or ReadOnly, Red Hat says never on
    virtual machines and counts 3 % of speed, ClickHouse dropped nobarrier from its advice. A
    "write through" can also be an administrator's override of `queue/write_cache`: it changes
    what the kernel believes, not what the disk does.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    options = need(fs.options)
    if need(options.token("barrier")) == "barrier":
        yield from cite_option(fs, "barrier")
        return
    if not isinstance(fs.stack, Known):
        unseen = Citation("devices below", f"not known: {fs.stack.detail}", fs.stack.what)
        sentence = "whether that cache is volatile could not be seen"
        yield _finding(fs, host, (Severity.HIGH, Confidence.POSSIBLE), sentence, (unseen,))
        need(fs.stack)
        return
    parts = parts_below(fs, fs.stack.value, host)
    claim = still_claims_write_back(fs.stack.value)
    citations = tuple(part.citation for part in parts) + ((claim,) if claim else ())
    yield _finding(fs, host, _grade(parts, claim), _sentence(parts), citations)
    gap = worst(parts).gap
    if gap is not None:
        raise Undetermined((gap,))


def _grade(parts: tuple[Part, ...], claim: Citation | None) -> tuple[Severity, Confidence]:
    """Grade by the worst device; a claim of write back above write through casts doubt on it."""
    part = worst(parts)
    doubtful = part.severity is Severity.INFO and claim is not None
    return part.severity, Confidence.LIKELY if doubtful else part.confidence


def _sentence(parts: tuple[Part, ...]) -> str:
    """Return the sentence on what the worst devices do."""
    decisive = worst(parts)
    names = [part.device for part in parts if part.sentence == decisive.sentence]
    return f"{', '.join(dict.fromkeys(names))}: {decisive.sentence}"


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
        message = f"{message}. It is mounted read-only: nothing is lost before it is writable"
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(*cite_option(fs, "barrier"), *citations),
        remedies=_remedies(fs, host),
    )


def _remedies(fs: Filesystem, host: Host) -> tuple[Remedy, ...]:
    steps = remedies.options.change_option(fs, "barrier", "barrier")
    where = "" if steps else f", {remedies.remount.without_mount(fs)}"
    return (
        Remedy(
            f"Turn barriers on{where}.{what_else_sets_it(fs, host, 'barrier')}",
            remedies.options.disruption(steps) if steps else Disruption.REMOUNT,
            steps,
            trade_off="Every fsync() waits for a flush: hardly anything on drives with power-loss "
            "protection, tenfold or more in fsync-bound work on consumer drives.",
        ),
        Remedy(
            "If it was set for speed: group commits in the application, relax the database's own "
            "setting (synchronous_commit, innodb_flush_log_at_trx_commit) where the last seconds "
            "may be lost, run throw-away jobs under eatmydata, or use drives with power-loss "
            "protection. data=writeback is no substitute.",
            Disruption.ONLINE,
        ),
    )
