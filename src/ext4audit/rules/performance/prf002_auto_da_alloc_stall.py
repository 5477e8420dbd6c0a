"""PRF002: Renaming over an existing file waits until its dirty data is submitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, for_wording, need
from ext4audit.facts.host import Filesystem, Host, Memory
from ext4audit.facts.options import EffectiveOptions
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.performance import (
    IN_THE_APPLICATION,
    MIB,
    STALL_SECONDS,
    THROTTLED_REQUESTS,
    Drain,
    backlog_bytes,
    cite_memory,
    cite_size,
    read_drains,
    stall_remedies,
    stall_seconds,
)

PREVENTING = ("noauto_da_alloc", "nodelalloc", "data=journal")
"""Each alone keeps rename and close from submitting anything (measured on 4.19, 6.12, 6.18)."""
WHOLE_SECONDS = 10
FEW = 3


@rule(
    "PRF002",
    "auto-da-alloc-stall",
    severity=Severity.LOW,
    since="0.1",
    references=(
        "fs/ext4/namei.c: ext4_rename(); fs/ext4/inode.c: ext4_alloc_da_blocks()",
        "Documentation/admin-guide/ext4.rst: auto_da_alloc",
        "https://github.com/rui314/mold/issues/188",
        "https://github.com/rust-lang/rust/pull/82047",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether auto_da_alloc acts: delayed allocation is on, and data is ordered or writeback, with
    a journal or without. This is the default, and a note only. It becomes a finding of low
    severity when the estimate exceeds 2 seconds: (dirty limit, or the filesystem's size if that
    is smaller, - what the block queue takes) / throughput of the slowest device below.

    ## Why it matters

    rename() over an existing file, and close() of a file that was truncated to nothing, submit
    all dirty pages of the file first. They wait for room in the queue, and hold the directory's
    lock meanwhile: creating and listing files there waits as well. Seconds are usual for files
    of hundreds of megabytes, above all with writeback throttling, which keeps the queue short
    as long as somebody reads from the disk.
    `strace -T -e trace=rename,renameat,renameat2,close` shows the waits.

    ## Remedy

    Best in the application: fsync before the rename, or rename to a new name. Then, in this
    order: writeback throttling off, and a bounded backlog. noauto_da_alloc is named last and
    without commands, because it takes away the protection of files that are replaced without
    fsync: DUR008 warns of it.

    ## When to ignore

    Where nothing replaces large files; auto_da_alloc is a safety feature.
    """
    _refuse(fs)
    options = need(fs.options)
    prevented = _preventing(options)
    if prevented:
        yield from prevented
        return
    in_force = _in_force(options)
    drains = _drains(fs, host)
    evidence: tuple[Evidence[object], ...] = (host.memory, *drains)
    gaps = tuple(each for each in evidence if isinstance(each, Unknown))
    if gaps or isinstance(host.memory, Unknown):
        yield _without_estimate(in_force, gaps)
        raise Undetermined(gaps)
    known = [each for each in drains if isinstance(each, Known)]
    yield _with_estimate(
        fs, in_force, host.memory, known, contained=for_wording(host.container, None) is not None
    )


def _refuse(fs: Filesystem) -> None:
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    fstype = need(fs.fstype)
    if fstype != "ext4":
        raise NotApplicable(f"{fstype} has no delayed allocation")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")


def _preventing(options: EffectiveOptions) -> tuple[Citation, ...]:
    """Return what in force makes auto_da_alloc do nothing."""
    return tuple(
        Citation(option.name, option.token, option.origin)
        for option in options.options
        if option.token in PREVENTING
    )


def _in_force(options: EffectiveOptions) -> tuple[Citation, ...]:
    """Cite the three options that make rename wait; raises Undetermined if one is hidden."""
    data = options.token("data")
    if options.complete and isinstance(data, Unknown) and data.why is Why.ABSENT:
        data = Known("none: there is no journal, which does not change the wait", options.source)
    tokens = {name: options.token(name) for name in ("auto_da_alloc", "delalloc")}
    need(tokens["auto_da_alloc"], tokens["delalloc"], data)
    return tuple(
        Citation(name, each.value, each.origin)
        for name, each in {**tokens, "data": data}.items()
        if isinstance(each, Known)
    )


def _drains(fs: Filesystem, host: Host) -> tuple[Evidence[Drain], ...]:
    if isinstance(fs.stack, Unknown):
        return (fs.stack,)
    return read_drains(fs.stack.value, host.virtualization)


def _without_estimate(in_force: tuple[Citation, ...], gaps: Sequence[Unknown]) -> Finding:
    missing = ", ".join(gap.what for gap in gaps)
    return Finding(
        message="Renaming over an existing file can wait while its dirty data is submitted; "
        "how long cannot be estimated here.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(*in_force, Citation("estimate", f"not possible without: {missing}", "computed")),
        remedies=(IN_THE_APPLICATION,),
    )


def _with_estimate(
    fs: Filesystem,
    in_force: tuple[Citation, ...],
    memory: Known[Memory],
    drains: Sequence[Known[Drain]],
    *,
    contained: bool,
) -> Finding:
    queues = [each.value for each in drains]
    backlog = backlog_bytes(fs, memory.value)
    seconds = stall_seconds(backlog, queues)
    worth_curing = seconds > STALL_SECONDS
    return Finding(
        message=f"Renaming over an existing file can wait up to ~{_spell(seconds)} s while its "
        "dirty data is submitted.",
        severity=Severity.LOW if worth_curing else Severity.INFO,
        confidence=Confidence.LIKELY if worth_curing else Confidence.CONFIRMED,
        citations=(
            *in_force,
            cite_memory(memory),
            *cite_size(fs, memory.value),
            *_cite_queues(drains),
            Citation("estimate", f"{seconds:.1f} s = (backlog - queue) / throughput", "computed"),
            Citation("assumptions", _assumptions(queues), "assumed"),
        ),
        remedies=tuple(stall_remedies(memory.value, backlog, queues, contained=contained))
        if worth_curing
        else (IN_THE_APPLICATION,),
    )


def _spell(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= WHOLE_SECONDS else f"{seconds:.1f}".removesuffix(".0")


def _cite_queues(drains: Sequence[Known[Drain]]) -> Iterator[Citation]:
    """Cite each kind of queue once: the twelve disks of an array are one line."""
    for alike in _grouped([drain.value for drain in drains]):
        queue = alike[0]
        name = queue.name if len(alike) == 1 else "*"
        yield Citation(
            f"queue of {_named(alike)}",
            f"nr_requests {queue.nr_requests}, max_sectors_kb {queue.max_sectors_kb}, "
            f"wbt_lat_usec {queue.wbt_latency_usec}: "
            f"takes {queue.holds_bytes(throttled=queue.throttled) / MIB:.0f} MiB",
            f"/sys/block/{name}/queue",
        )


def _grouped(queues: Sequence[Drain]) -> list[list[Drain]]:
    """Put queues together that differ in their name only."""
    groups: dict[Drain, list[Drain]] = {}
    for queue in queues:
        groups.setdefault(queue._replace(name=""), []).append(queue)
    return list(groups.values())


def _named(queues: Sequence[Drain]) -> str:
    if len(queues) <= FEW:
        return ", ".join(queue.name for queue in queues)
    return f"{queues[0].name} … {queues[-1].name} ({len(queues)})"


def _assumptions(queues: Sequence[Drain]) -> str:
    speeds = ", ".join(
        f"{_named(alike)} {alike[0].megabytes_per_second} MB/s ({alike[0].speed_class})"
        for alike in _grouped(queues)
    )
    stripe = "; the stripe's devices share it evenly" if any(q.shares > 1 for q in queues) else ""
    return (
        f"{speeds}; throttled queues take {THROTTLED_REQUESTS} requests; one file holds all "
        f"dirty memory{stripe}"
    )
