"""Measurements on a real filesystem: the only part of the program that writes to one.

`probe` creates a private directory, runs the probes in it and always removes it.
`observing.observe` writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ext4audit.evidence import for_wording, is_surely
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.measurement import MeasuredFilesystem, Measurement, ProbeVerdict, Skipped
from ext4audit.probing import extents, fsync, members, rename
from ext4audit.probing.bench import Bench, Budget, BudgetExceeded, Limits
from ext4audit.probing.members import NothingToMeasure
from ext4audit.probing.workspace import Refused, workspace, writable_space

Progress = Callable[[str, float], None]
"""A callback for the name of a probe and the fraction that is done, from 0 to 1."""


class Probe(NamedTuple):
    """A probe: the code of its rule, its function, and what a healthy filesystem measures."""

    rule: str
    measure: Callable[[Bench], Measurement]
    healthy: str


PROBES = {
    "fsync": Probe("DUR001", fsync.measure, fsync.HEALTHY),
    "rename": Probe("PRF002", rename.measure, rename.HEALTHY),
    "extents": Probe("PRF001", extents.measure, extents.HEALTHY),
    "members": Probe("LAY001", members.measure, members.HEALTHY),
}
"""The probes in the order in which they run."""
OPTIONS = ("auto_da_alloc", "barrier", "data", "delalloc", "dioread_nolock")
"""The mount options that affect the measurements."""


class ProbeTarget(NamedTuple):
    """The filesystem that holds an open directory, and its host."""

    directory: int
    fs: Filesystem
    host: Host


class ProbeResults(NamedTuple):
    """The results of the probes, those that did not run, and how many bytes were written."""

    results: tuple[Measurement, ...]
    skipped: tuple[Skipped, ...]
    written_bytes: int


def probe(
    subject: ProbeTarget, names: Sequence[str], limits: Limits, progress: Progress = lambda *_: None
) -> ProbeResults:
    """Run the named probes within the limits; raises Refused if they cannot write."""
    refuse_read_only(subject.fs)
    space = writable_space(subject.directory, limits.size_bytes)
    budget = Budget(limits._replace(size_bytes=space.size_bytes, inodes=space.inodes))
    results: list[Measurement] = []
    skipped: list[Skipped] = []
    with workspace(subject.directory) as room:
        for number, name in enumerate(names):
            budget.give_turn(len(names) - number)
            one = Bench(room, budget, subject.fs, subject.host, partial(progress, name))
            try:
                results.append(_measured(name, one))
            except NothingToMeasure as reason:
                skipped.append(Skipped(name, PROBES[name].rule, str(reason)))
            progress(name, 1.0)
    return ProbeResults(tuple(results), tuple(skipped), budget.written_bytes)


def refuse_read_only(fs: Filesystem) -> None:
    """Raise Refused if the filesystem is known to be read-only."""
    if is_surely(fs.read_only):
        raise Refused("its filesystem is read-only")


def _measured(name: str, bench: Bench) -> Measurement:
    """Run one probe; an error or an exceeded budget gives an inconclusive result."""
    each = PROBES[name]
    try:
        return each.measure(bench)
    except BudgetExceeded as spent:
        why = str(spent)
    except OSError as error:
        why = error.strerror or str(error)
    finally:
        bench.workspace.empty()
    return Measurement(name, each.rule, ProbeVerdict.INCONCLUSIVE, why, each.healthy)


def measured_filesystem(fs: Filesystem, host: Host) -> MeasuredFilesystem:
    """Return the description by which a later scan recognizes the measured filesystem."""
    found = ((name, option_of(fs, name)) for name in OPTIONS)
    kernel = for_wording(host.kernel, None)
    return MeasuredFilesystem(
        uuid=fs.uuid or "",
        device=fs.device,
        kernel_release=kernel.release if kernel else "",
        options=tuple((name, option.token) for name, option in found if option),
    )
