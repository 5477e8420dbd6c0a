"""The audit of many captured hosts: on all cores, in constant memory, with a summary by rule."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing.connection import wait
from types import MappingProxyType
from typing import TypeAlias

import click

from ext4audit import lazily
from ext4audit.cli import EXIT_INTERNAL, print_diagnostic, print_error
from ext4audit.cli.captured import Place, refuse_same_names
from ext4audit.cli.fleet.one_host import Job, audit_place, ignore_interrupts, unread
from ext4audit.cli.options import ReportOptions, page_of, write_pages
from ext4audit.cli.output import DEFAULT, NAGIOS, ONE_BY_ONE, Output, is_ascii_only, writing
from ext4audit.cli.policy import OUTSIDE_BASELINE
from ext4audit.facts import put_in_force
from ext4audit.facts.knowledge import by_file
from ext4audit.finding import listed
from ext4audit.renderers import Audited, in_force_of
from ext4audit.renderers.shared.fleet import SHOWN, FleetSums, HostLine
from ext4audit.report import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INCOMPLETE, nagios_code
from ext4audit.sources import ArchiveError

_WORST_FIRST = (EXIT_INTERNAL, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_CLEAN)
_AHEAD = 4
"""Hosts in flight per process: enough to keep it busy, and few enough to fit in memory."""
_MANY = 1 << 20
_REPAINT_SECONDS = 0.1


def scan_fleet(places: Sequence[Place], targets: tuple[str, ...], asked: ReportOptions) -> int:
    """Audit many hosts and return the worst exit code of all.

    Raises UsageError if nothing was audited, because no host could be read or no host has a
    filesystem that a TARGET names.
    """
    job = _job(targets, asked)
    lines = _lines(places, job, _audited_without_key(places, job))
    shown = _shown(lines, len(places), quiet=asked.verbosity < 0)
    sums, codes = print_lines(shown, targets, asked)
    if asked.outputs[0].fmt != NAGIOS and EXIT_INTERNAL not in codes:
        _refuse_nothing(sums, targets)
    return worst_of(codes)


def audit_arriving(places: Iterable[Place | None], asked: ReportOptions) -> Iterator[HostLine]:
    """Yield the line of each host, in the order in which the places arrive.

    A place that is None marks a pause in which no host has arrived.
    """
    return _lines(places, _job((), asked))


def print_lines(
    lines: Iterable[HostLine],
    targets: tuple[str, ...],
    asked: ReportOptions,
    *,
    by_key: bool = False,
) -> tuple[FleetSums, set[int]]:
    """Write all hosts in all formats, and return their totals and exit codes.

    With `by_key`, formats that show all hosts together are sorted; hosts may arrive in any order.
    """
    streams = _streams(asked)
    named = in_force_of(asked.post_processing.policy, asked.post_processing.knowledge)
    sums = FleetSums(asked.threshold, asked.group_by, named)
    kept = _Lines()
    failures: list[OSError] = []
    with ExitStack() as stack:
        puts = [stack.enter_context(writing(output.path)) for output in streams]
        if len(asked.outputs) > 1:
            puts = [
                put if output.path else _until_error(put, failures)
                for output, put in zip(streams, puts, strict=True)
            ]
        for line in lines:
            sums.add(line)
            kept.add(line)
            for put, text in zip(puts, line.rendered, strict=True):
                if text:
                    put(text)
        for output, put in zip(streams, puts, strict=True):
            if output.fmt == "text":
                page = page_of(output, asked)
                put(
                    sums.text(
                        verbosity=page.verbosity, ascii_only=page.ascii_only, width=page.width
                    )
                )
    codes = _write_totals(sums, kept, targets, asked, by_key=by_key)
    with writing(None):
        for failure in failures:
            raise failure
    return sums, codes


def worst_of(codes: set[int]) -> int:
    """Return the exit code of a fleet; a plugin has only one code, which is returned."""
    return next((code for code in _WORST_FIRST if code in codes), max(codes))


def _until_error(put: Callable[[str], None], failures: list[OSError]) -> Callable[[str], None]:
    """Return a function that stops at its first error, so that other outputs are still written."""

    def write_unless_failed(text: str) -> None:
        try:
            if not failures:
                put(text)
        except OSError as error:
            failures.append(error)

    return write_unless_failed


class _Lines:
    """Results of all hosts: exit codes, suppressions that matched, and reports if needed."""

    def __init__(self) -> None:
        self.codes: set[int] = set()
        self.used: frozenset[object] = frozenset()
        self.undetermined: frozenset[str] = frozenset()
        self.hosts: list[Audited] = []
        self.outside_baseline: list[str] = []

    def add(self, line: HostLine) -> None:
        self.codes.add(line.code)
        if line.found and OUTSIDE_BASELINE in line.used:
            self.outside_baseline.append(line.name)
        self.used |= line.used
        self.undetermined |= line.undetermined
        if line.host is not None:
            self.hosts.append(line.host)


def _write_totals(
    sums: FleetSums,
    lines: _Lines,
    targets: tuple[str, ...],
    asked: ReportOptions,
    *,
    by_key: bool,
) -> set[int]:
    """Write the notices and the formats that show all hosts, and return the exit codes."""
    later = [output for output in asked.outputs if output.fmt not in ONE_BY_ONE]
    if by_key:
        lines.hosts.sort(key=lambda host: host.name)
    write_pages(later, lines.hosts, asked)
    whole = not targets and sums.read == sums.hosts
    processing = asked.post_processing
    notices = processing.notices(lines.used, lines.undetermined, asked.rules, whole=whole)
    for notice in (*notices, *processing.unused_by_all(lines.used)):
        print_diagnostic(notice)
    if lines.outside_baseline:
        names = listed(lines.outside_baseline, SHOWN)
        print_diagnostic(f"not in the baseline, so that every finding is new: {names}")
    quiet = asked.verbosity < 0
    one_line = {DEFAULT, NAGIOS} if quiet else {DEFAULT}
    if all(output.fmt not in one_line for output in asked.outputs):
        text = sums.text(verbosity=asked.verbosity, ascii_only=is_ascii_only(sys.stderr))
        print_error(text.rstrip("\n"))
    if asked.outputs[0].fmt == NAGIOS:
        reports = [host.report for host in lines.hosts]
        return {nagios_code(reports, asked.threshold, allow_incomplete=asked.allow_incomplete)}
    return lines.codes


def _refuse_nothing(sums: FleetSums, targets: tuple[str, ...]) -> None:
    if not sums.read:
        raise click.UsageError("none of the sources could be read")
    if targets and not sums.matched:
        names = lazily("assemble.devices.target", "in_words")(targets)
        raise click.UsageError(f"no host has a filesystem that is called {names}")


def _streams(asked: ReportOptions) -> list[Output]:
    return [output for output in asked.outputs if output.fmt in ONE_BY_ONE]


def _job(targets: tuple[str, ...], asked: ReportOptions) -> Job:
    streams = _streams(asked)
    verbosity = 0 if asked.verbosity > 0 else -1
    pages = (
        (output.fmt, page_of(output, asked)._replace(verbosity=verbosity)) for output in streams
    )
    return Job(
        rules=frozenset(rule.code for rule in asked.rules),
        targets=targets,
        profiles=asked.profiles,
        post_processing=asked.post_processing,
        threshold=asked.threshold,
        allow_incomplete=asked.allow_incomplete,
        pages=tuple(pages),
        site_rules=asked.site_rules,
        keep=len(streams) < len(asked.outputs),
    )


def _audited_without_key(places: Sequence[Place], job: Job) -> dict[Place, HostLine]:
    """Audit hosts without keys first, to check all names for duplicates; raises UsageError."""
    known = {place: audit_place(place, job) for place in places if place.key is None}
    refuse_same_names([p._replace(key=known[p].name) if p in known else p for p in places])
    return known


def _lines(
    places: Iterable[Place | None],
    job: Job,
    known: Mapping[Place, HostLine] = MappingProxyType({}),
) -> Iterator[HostLine]:
    """Yield the line of each host, in the order of the places; `known` are finished lines.

    At a place that is None, a pause, the lines that are finished are yielded.
    """
    most = len(places) if isinstance(places, Sized) else _MANY
    workers = min(len(os.sched_getaffinity(0)), most)
    pool = _Pool(workers, job)
    waiting: _Waiting = deque()
    try:
        for place in places:
            if place is not None:
                # Workers have no standard input, so this process reads it.
                here = place.is_read_here or place in known
                waiting.append((place, None if here else pool.start(place)))
            while waiting and (
                len(waiting) >= workers * _AHEAD or (place is None and _is_done(waiting[0]))
            ):
                yield _next(waiting, pool, known)
        while waiting:
            yield _next(waiting, pool, known)
    finally:
        pool.stop()


_Waiting: TypeAlias = deque[tuple[Place, Future[HostLine] | None]]


def _next(waiting: _Waiting, pool: _Pool, known: Mapping[Place, HostLine]) -> HostLine:
    place, started = waiting.popleft()
    return known[place] if place in known else pool.line(place, started)


def _is_done(waiting: tuple[Place, Future[HostLine] | None]) -> bool:
    started = waiting[1]
    return started is None or started.done()


class _Pool:
    """Worker processes that audit hosts; a killed worker does not affect other hosts."""

    def __init__(self, workers: int, job: Job) -> None:
        self._workers = workers
        self._job = job
        self._executor = _processes(workers, job)

    def start(self, place: Place) -> Future[HostLine]:
        try:
            return self._executor.submit(_audit, place)
        except BrokenProcessPool:
            self._executor.shutdown()
            self._executor = _processes(self._workers, self._job)
            return self._executor.submit(_audit, place)

    def line(self, place: Place, started: Future[HostLine] | None) -> HostLine:
        """Wait for a host's line; a crash is reported as an internal error of this host only."""
        if started is None:
            return audit_place(place, self._job)
        error = started.exception()
        if isinstance(error, BrokenProcessPool):
            # It is unknown which host killed the worker. Each host in flight is tried again in
            # its own pool, because that host would also kill the worker of a shared pool.
            with _processes(1, self._job) as alone:
                started = alone.submit(_audit, place)
                error = started.exception()
        if error is None:
            return started.result()
        crash = ArchiveError(f"{type(error).__name__}: {error}", place.path)
        return unread(place, crash, "internal", self._job)._replace(code=EXIT_INTERNAL)

    def stop(self) -> None:
        self._executor.shutdown(cancel_futures=True)


def _processes(workers: int, job: Job) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=_begin, initargs=(job,))


_JOB_OF_WORKER: dict[str, Job] = {}
"""The job of a worker, sent once: a baseline of a fleet is too large to send for each host."""


def _begin(job: Job) -> None:
    ignore_interrupts()
    _end_with_parent()
    if job.post_processing.knowledge:
        put_in_force(by_file(job.post_processing.knowledge))
    _JOB_OF_WORKER["job"] = job


def _end_with_parent() -> None:
    """End this worker when its parent ends, even if killed; else it keeps standard output open.

    When the kernel closes the parent's end of the pipe, it sends SIGIO, whose default action ends
    the process at any point.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if wait([sentinel], timeout=0):  # it has already ended
        os._exit(EXIT_INTERNAL)


def _audit(place: Place) -> HostLine:
    return audit_place(place, _JOB_OF_WORKER["job"])


def _shown(lines: Iterator[HostLine], hosts: int, *, quiet: bool) -> Iterator[HostLine]:
    """Yield the lines, and show their number so far on a terminal."""
    show = _ticker(hosts) if sys.stderr.isatty() and not quiet else None
    for number, line in enumerate(lines, start=1):
        if show is not None:
            show(number)
        yield line


def _ticker(hosts: int) -> Callable[[int], None]:
    """Return a function that repaints the status line at a limited rate.

    It uses no thread, as rich does, because a fork in a process with threads can hang.
    """
    painted = 0.0

    def show(number: int) -> None:
        nonlocal painted
        last = number == hosts
        if not last and time.monotonic() - painted < _REPAINT_SECONDS:
            return
        painted = time.monotonic()
        sys.stderr.write(f"\r{' ' * 40}\r" if last else f"\r{number} of {hosts} hosts")
        sys.stderr.flush()

    return show
