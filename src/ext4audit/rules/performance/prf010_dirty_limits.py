"""PRF010: Memory may hold more dirty data than the disks can write in ten seconds."""

from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown, need, origin_of, raise_for
from ext4audit.facts import MIB
from ext4audit.facts.host import Filesystem, Host, Memory
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import RuleOutput, host_rule
from ext4audit.rules.performance import (
    Drain,
    backlog_bytes,
    bound,
    cite_memory,
    cite_size,
    drains_of,
)
from ext4audit.rules.shared import refuse_container, writable_of

LONG_SECONDS = 10
"""How long writing the backlog may take without a finding."""


class Backlog(NamedTuple):
    """The dirty data that memory can hold for one filesystem, and the queues below it."""

    fs: Filesystem
    drains: tuple[Drain, ...]
    waiting_bytes: int

    @property
    def seconds(self) -> float:
        """How long the slowest device takes to write the backlog."""
        return self.waiting_bytes / min(drain.bytes_per_second for drain in self.drains)

    @property
    def name(self) -> str:
        """The first mount point, or the device."""
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

    How long the slowest writable ext4 filesystem takes to write all dirty data that memory may
    hold for it: the dirty limit (vm.dirty_bytes, or vm.dirty_ratio of the available memory), or
    the size of the filesystem if that is smaller, divided by the assumed speed of its devices.
    More than 10 seconds are a finding.

    ## Why it matters

    The default of 20 % was chosen when memory was small: on a host with 512 GB, 100 GB of
    dirty data may wait for the disks. A sync, an unmount, a snapshot or a checkpoint of a database
    then takes minutes, and a crash loses more data.

    ## Remedy

    Set the limits in bytes: vm.dirty_bytes to what the slowest device writes in two seconds, and
    vm.dirty_background_bytes to a quarter of that.

    ## When to ignore

    Ignore it if memory is to absorb bursts of writes: builds, batch jobs, periodic ingest. The
    speed is assumed from the class of the device, not measured. The rule is off by default for both
    reasons. It does not apply in a container, because the limits belong to the host.
    """
    refuse_container(host, "in a {} container, the limits belong to the host")
    subjects = writable_of(host)
    memory = need(host.memory)
    limit = cite_memory(Known(memory, origin_of(host.memory)))
    gaps: list[Unknown] = []
    known: list[Backlog] = []
    for fs in subjects:
        drains = drains_of(fs, host)
        unknown = [each for each in drains if isinstance(each, Unknown)]
        gaps += unknown
        if not unknown:
            known.append(Backlog(fs, tuple(map(need, drains)), backlog_bytes(fs, memory)))
    slow = [backlog for backlog in known if backlog.seconds > LONG_SECONDS]
    if slow:
        yield _finding(max(slow, key=lambda backlog: backlog.seconds), known, memory, limit)
    raise_for(gaps)
    yield limit


def _finding(
    worst: Backlog, everyone: Sequence[Backlog], memory: Memory, limit: Citation
) -> Finding:
    drains = [drain for backlog in everyone for drain in backlog.drains]
    return Finding(
        message=f"Memory may hold {worst.waiting_bytes // MIB} MiB of dirty data for {worst.name}; "
        f"writing it takes ~{worst.seconds:.0f} s at the assumed speed, and a sync or an "
        "unmount waits that long.",
        severity=Severity.LOW,
        confidence=Confidence.LIKELY,
        citations=(limit, *cite_size(worst.fs, memory), *_assumptions(worst)),
        remedies=(bound(memory, drains),),
        summary="memory may hold more dirty data than a disk can write in 10 s",
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
