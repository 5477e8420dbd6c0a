"""PRF002: Replacing a file that was just written blocks rename() until its data is submitted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, for_wording, need
from ext4audit.facts import GIB, MIB, cached_by_identity
from ext4audit.facts.host import Filesystem, Host, Memory
from ext4audit.facts.mount import EffectiveOptions
from ext4audit.finding import Citation, Confidence, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.performance import (
    IN_THE_APPLICATION,
    STALL_SECONDS,
    THROTTLED_REQUESTS,
    WITHOUT_AUTO_DA_ALLOC,
    Drain,
    backlog_bytes,
    cite_memory,
    cite_size,
    drains_of,
    stall_remedies,
    stall_seconds,
)
from ext4audit.rules.shared.demands import forbidden
from ext4audit.rules.shared.quantities import size

PREVENTING = ("noauto_da_alloc", "nodelalloc", "data=journal")
"""With any of these, rename() and close() submit nothing (measured on 4.19, 6.12, 6.18)."""
FILE_BYTES = GIB
"""The size of the file that the estimate is for."""
UNNOTICED_SECONDS = 0.05
WHOLE_SECONDS = 2
"""Longer estimates are shown in whole seconds."""
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

    Whether `auto_da_alloc` is active: delayed allocation is on, and the data mode is not journal. A
    filesystem without a journal is affected as well. This is the default, so severity is info. It
    is low if the estimate exceeds 2 seconds and there is a reason to act: a disk below is known to
    be slow (rotational, USB, memory card), or a profile rates this rule (`--profile builds`).

    The estimate is for one file of 1 GiB that was just written, or for the size of the
    filesystem or the dirty limit if that is smaller: (file - capacity of the block queue) /
    throughput of the slowest device below. The throughput is assumed from the class of the
    device, not measured: 40 MB/s for memory cards and USB disks, 120 MB/s for rotational disks,
    175 MB/s for network and virtual disks, 400 MB/s for SATA and SAS SSDs and disks in
    memory (zram), 1000 MB/s for NVMe.

    ## Why it matters

    rename() over an existing file, and close() of a file that was truncated to zero, first submit
    all dirty pages of the file. They wait for room in the queue and hold the directory's lock
    meanwhile, so creating and listing files in that directory block as well. Waits of seconds are
    usual for files of hundreds of megabytes, above all with writeback throttling, which keeps the
    queue short while another process reads from the disk.
    `strace -T -e trace=rename,renameat,renameat2,close` shows the waits.

    ## Remedy

    Preferably in the application: call fsync() before the rename, or rename to a new name. The next
    options are to disable writeback throttling and to limit dirty memory. `noauto_da_alloc` is
    listed last and without commands, because it removes the protection of files that are replaced
    without fsync(); DUR008 reports it.

    ## When to ignore

    Ignore it if no program replaces large files. `auto_da_alloc` is a safety feature.
    """
    _refuse(fs)
    options = need(fs.options)
    prevented = _preventing(options)
    if prevented:
        yield from prevented
        return
    in_force = _in_force(options)
    drains = drains_of(fs, host)
    evidence: tuple[Evidence[object], ...] = (host.memory, *drains)
    gaps = tuple(each for each in evidence if isinstance(each, Unknown))
    if gaps or isinstance(host.memory, Unknown):
        yield _without_estimate(in_force, gaps)
        raise Undetermined(gaps)
    queues = [each.value for each in drains if isinstance(each, Known)]
    stall = estimate(fs, host.memory.value, queues)
    cited = (*in_force, *_cite_estimate(fs, host.memory, queues, stall))
    if stall.seconds < UNNOTICED_SECONDS:
        yield from cited
        return
    yield _finding(fs, host, stall, queues, cited)


def _refuse(fs: Filesystem) -> None:
    refuse_unmounted(fs)
    fstype = need(fs.fstype)
    if fstype != "ext4":
        raise NotApplicable(f"{fstype} has no delayed allocation")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")


def _preventing(options: EffectiveOptions) -> tuple[Citation, ...]:
    """Return the options in force that disable auto_da_alloc."""
    return tuple(
        Citation(option.name, option.token, option.origin)
        for option in options.options
        if option.token in PREVENTING
    )


def _in_force(options: EffectiveOptions) -> tuple[Citation, ...]:
    """Cite the three options that make rename() block; raises Undetermined if one is unknown."""
    data = options.token("data")
    if options.lacks("data"):
        data = Known("none: no journal, which does not change the wait", options.source)
    tokens = {name: options.token(name) for name in ("auto_da_alloc", "delalloc")}
    need(tokens["auto_da_alloc"], tokens["delalloc"], data)
    return tuple(
        Citation(name, each.value, each.origin, detail=True)
        for name, each in {**tokens, "data": data}.items()
        if isinstance(each, Known)
    )


def _without_estimate(in_force: tuple[Citation, ...], gaps: Sequence[Unknown]) -> Finding:
    missing = ", ".join(gap.what for gap in gaps)
    return Finding(
        message="Replacing a file that was just written can block rename(); the duration cannot "
        "be estimated.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(*in_force, Citation("estimate", f"not possible without: {missing}", "computed")),
        remedies=(IN_THE_APPLICATION,),
        summary="rename() over a file just written can block; no estimate",
    )


class Stall(NamedTuple):
    """The estimate of how long rename() blocks for one file, and its basis.

    `bytes_per_second` is the speed at which the file is submitted. `basis` is the text for it
    in messages: "175 MB/s assumed".
    """

    file_bytes: int
    seconds: float
    bytes_per_second: float
    basis: str

    @property
    def message(self) -> str:
        """The message of the finding for one filesystem."""
        return (
            f"Replacing a {size(self.file_bytes)} file that was just written can block rename() "
            f"for ~{_seconds_text(self.seconds)} s ({self.basis})."
        )


def summary(speeds: Sequence[float]) -> str:
    """Return one summary for all filesystems of a host: seconds per GiB at these speeds."""
    slow, fast = min(speeds), max(speeds)
    longest, mega = _seconds_text(GIB / slow), f"{slow // 1_000_000:.0f}"
    if fast > slow:
        longest = f"{_seconds_text(GIB / fast)} to ~{longest}"
        mega = f"{mega} to {fast // 1_000_000:.0f}"
    return f"rename() over a file just written can block ~{longest} s per GiB ({mega} MB/s assumed)"


@cached_by_identity
def speeds_of(host: Host) -> tuple[float, ...]:
    """Return the assumed speeds of all filesystems of a host on which a rename can block."""
    stalls = (_stall_of(fs, host) for fs in host.filesystems)
    return tuple(stall.bytes_per_second for stall in stalls if stall)


def _stall_of(fs: Filesystem, host: Host) -> Stall | None:
    """Return the stall on a filesystem, None if there is none or it cannot be estimated."""
    try:
        _refuse(fs)
        if _preventing(need(fs.options)):
            return None
        stall = estimate(fs, need(host.memory), [need(each) for each in drains_of(fs, host)])
    except (NotApplicable, Undetermined):
        return None
    return stall if stall.seconds >= UNNOTICED_SECONDS else None


def estimate(fs: Filesystem, memory: Memory, queues: Sequence[Drain]) -> Stall:
    """Return the stall for a file of FILE_BYTES, or of the most that can be dirty if less."""
    file_bytes = min(FILE_BYTES, backlog_bytes(fs, memory))
    speed = min(queue.bytes_per_second for queue in queues)
    basis = f"{speed // 1_000_000} MB/s assumed"
    return Stall(file_bytes, stall_seconds(file_bytes, queues), speed, basis)


def _finding(
    fs: Filesystem,
    host: Host,
    stall: Stall,
    queues: Sequence[Drain],
    citations: tuple[Citation, ...],
) -> Finding:
    matters = _is_long(host, queues) and _has_reason(fs, host, queues)
    return Finding(
        message=stall.message,
        severity=Severity.LOW if matters else Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=citations,
        remedies=tuple(_remedies(fs, host, stall, queues)) if matters else (IN_THE_APPLICATION,),
        summary=summary(speeds_of(host) or [stall.bytes_per_second]),
        of_host=True,
    )


def _is_long(host: Host, queues: Sequence[Drain]) -> bool:
    """Return whether the stall is long, at any filesystem size, so that a host's findings agree."""
    file_bytes = min(FILE_BYTES, need(host.memory).dirty_limit_bytes)
    return stall_seconds(file_bytes, queues) > STALL_SECONDS


def _has_reason(fs: Filesystem, host: Host, queues: Sequence[Drain]) -> bool:
    """Return whether a disk is known to be slow or a profile rates this rule."""
    rated = any(dict(profile.rate).get("PRF002") for profile in host.profiles_of(fs))
    return rated or any(queue.is_slow for queue in queues)


def _remedies(
    fs: Filesystem, host: Host, stall: Stall, queues: Sequence[Drain]
) -> Iterator[Remedy]:
    contained = for_wording(host.container, None) is not None
    yield from stall_remedies(need(host.memory), stall.file_bytes, queues, contained=contained)
    if "noauto_da_alloc" not in forbidden(fs, host):
        yield WITHOUT_AUTO_DA_ALLOC


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= WHOLE_SECONDS else f"{seconds:.1f}".removesuffix(".0")


def _cite_estimate(
    fs: Filesystem, memory: Known[Memory], queues: Sequence[Drain], stall: Stall
) -> Iterator[Citation]:
    """Cite the inputs and assumptions of the estimate."""
    yield cite_memory(memory)
    yield from cite_size(fs, memory.value)
    yield from _cite_queues(queues)
    value = f"{stall.seconds:.1f} s = (file - queue) / throughput"
    yield Citation("estimate", value, "computed", detail=True)
    yield Citation("assumptions", _assumptions(queues, stall), "assumed")


def _cite_queues(queues: Sequence[Drain]) -> Iterator[Citation]:
    """Cite equal queues together: the twelve disks of an array make one citation."""
    for alike in _grouped(queues):
        queue = alike[0]
        name = queue.name if len(alike) == 1 else "*"
        yield Citation(
            f"queue of {_named(alike)}",
            f"nr_requests {queue.nr_requests}, max_sectors_kb {queue.max_sectors_kb}, "
            f"wbt_lat_usec {queue.wbt_latency_usec}: "
            f"takes {queue.holds_bytes(throttled=queue.throttled) / MIB:.0f} MiB",
            f"/sys/block/{name}/queue",
            detail=True,
        )


def _grouped(queues: Sequence[Drain]) -> list[list[Drain]]:
    """Group the queues that differ only in name."""
    groups: dict[Drain, list[Drain]] = {}
    for queue in queues:
        groups.setdefault(queue._replace(name=""), []).append(queue)
    return list(groups.values())


def _named(queues: Sequence[Drain]) -> str:
    if len(queues) <= FEW:
        return ", ".join(queue.name for queue in queues)
    return f"{queues[0].name} … {queues[-1].name} ({len(queues)})"


def _assumptions(queues: Sequence[Drain], stall: Stall) -> str:
    speeds = ", ".join(
        f"{_named(alike)} {alike[0].megabytes_per_second} MB/s ({alike[0].speed_class})"
        for alike in _grouped(queues)
    )
    stripe = (
        "; the members of the stripe share it evenly" if any(q.shares > 1 for q in queues) else ""
    )
    return (
        f"{speeds}; a file of {size(stall.file_bytes)}; throttled queues take "
        f"{THROTTLED_REQUESTS} requests{stripe}"
    )
