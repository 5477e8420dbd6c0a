"""PRF010: More written data may wait in memory than the disks write in ten seconds."""

from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, is_surely, need
from ext4audit.facts.host import Filesystem, Host, Memory
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import NotApplicable, RuleOutput, host_rule
from ext4audit.rules.performance import (
    MIB,
    Drain,
    backlog_bytes,
    bound,
    cite_memory,
    cite_size,
    read_drains,
)

LONG_SECONDS = 10
"""What writing out the whole backlog may take before it is worth a word."""


class Backlog(NamedTuple):
    """What can wait in memory for one filesystem, and how long its slowest device writes it."""

    fs: Filesystem
    drains: tuple[Drain, ...]
    waiting_bytes: int

    @property
    def seconds(self) -> float:
        """How long writing all of it takes."""
        speeds = (drain.megabytes_per_second * drain.shares for drain in self.drains)
        return self.waiting_bytes / (min(speeds) * 1_000_000)

    @property
    def name(self) -> str:
        """What a person calls the filesystem."""
        return next(iter(self.fs.mount_points), self.fs.device)


@host_rule(
    "PRF010",
    "dirty-limits",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/sysctl/vm.html",
        "https://lwn.net/Articles/572911/",
    ),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    How long the slowest writable ext4 filesystem would take to write all that may wait for it in
    memory: the limit of dirty memory (vm.dirty_bytes, or vm.dirty_ratio of what is available),
    or the filesystem's size where that is smaller, divided by the speed that its devices should
    have. More than 10 seconds are a finding.

    ## Why it matters

    The default of 20 % is from times when memory was small: on a host with 512 GB, 100 GB may
    wait for the disks. A sync, an unmount, a snapshot or a database's checkpoint then takes
    minutes, a crash loses more, and PRF002's stall grows with it.

    ## Remedy

    Set limits in bytes instead of shares: two seconds of writing for all, and a quarter of it as
    the amount at which writing begins.

    ## When to ignore

    Where bursts that fit into memory are wanted: builds, batch jobs, ingest that is paused after.
    The speed is an assumption by the kind of device, not a measurement; the rule is off by
    default for both reasons. In a container the limits are the host's.
    """
    container = need(host.container)
    if container:
        raise NotApplicable(f"in a {container} container, the limits are the host's to set")
    subjects = [fs for fs in host.filesystems if fs.alive and not _is_read_only(fs)]
    if not subjects:
        raise NotApplicable("no writable ext4 filesystem is mounted")
    memory = need(host.memory)
    drains = {id(fs): _drains(fs, host) for fs in subjects}
    gaps = tuple(gap for each in drains.values() for gap in each if isinstance(gap, Unknown))
    known = [_backlog(fs, drains[id(fs)], memory) for fs in subjects if _are_known(drains[id(fs)])]
    slow = [backlog for backlog in known if backlog.seconds > LONG_SECONDS]
    if slow:
        yield _finding(max(slow, key=lambda backlog: backlog.seconds), known, host, memory)
    if gaps:
        raise Undetermined(tuple(dict.fromkeys(gaps)))
    if isinstance(host.memory, Known):
        yield cite_memory(host.memory)


def _is_read_only(fs: Filesystem) -> bool:
    """Whether it is read-only for certain; what is not known may be written to."""
    return is_surely(fs.read_only)


def _drains(fs: Filesystem, host: Host) -> tuple[Evidence[Drain], ...]:
    if isinstance(fs.stack, Unknown):
        return (fs.stack,)
    return read_drains(fs.stack.value, host.virtualization)


def _are_known(drains: Sequence[Evidence[Drain]]) -> bool:
    return all(isinstance(drain, Known) for drain in drains)


def _backlog(fs: Filesystem, drains: Sequence[Evidence[Drain]], memory: Memory) -> Backlog:
    known = tuple(drain.value for drain in drains if isinstance(drain, Known))
    return Backlog(fs, known, backlog_bytes(fs, memory))


def _finding(worst: Backlog, everyone: Sequence[Backlog], host: Host, memory: Memory) -> Finding:
    drains = [drain for backlog in everyone for drain in backlog.drains]
    cited = (cite_memory(host.memory),) if isinstance(host.memory, Known) else ()
    return Finding(
        message=f"{worst.waiting_bytes // MIB} MiB may wait in memory for {worst.name}, which "
        f"should take ~{worst.seconds:.0f} s to write them: a sync or an unmount waits as long.",
        severity=Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(*cited, *cite_size(worst.fs, memory), *_assumptions(worst)),
        remedies=(bound(memory, drains),),
    )


def _assumptions(worst: Backlog) -> tuple[Citation, ...]:
    return tuple(
        Citation(
            f"speed of {drain.name}",
            f"{drain.megabytes_per_second} MB/s ({drain.speed_class})",
            "assumed",
        )
        for drain in dict.fromkeys(worst.drains)
    )
