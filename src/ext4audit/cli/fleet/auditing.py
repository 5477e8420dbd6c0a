"""Many hosts with evidence at hand: on all cores, in constant memory, with a summary by rule."""

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
from ext4audit.cli import print_diagnostic, print_error
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

EXIT_INTERNAL = 70
_WORST_FIRST = (EXIT_INTERNAL, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_CLEAN)
_AHEAD = 4
"""Hosts in flight for each process: enough to keep it busy, few enough to hold in memory."""
_MANY = 1 << 20
_REPAINT_SECONDS = 0.1


def scan_fleet(places: Sequence[Place], targets: tuple[str, ...], asked: ReportOptions) -> int:
    """Audit many hosts and return the worst exit code of all.

    Raises UsageError where no host could be read, or none has what a TARGET names: nothing
    was audited then.
    """
    job = _job(targets, asked)
    lines = _lines(places, job, _nameless(places, job))
    shown = _shown(lines, len(places), quiet=asked.verbosity < 0)
    sums, codes = print_lines(shown, targets, asked)
    if asked.outputs[0].fmt != NAGIOS and EXIT_INTERNAL not in codes:
        _refuse_nothing(sums, targets)
    return worst_of(codes)


def audit_arriving(places: Iterable[Place | None], asked: ReportOptions) -> Iterator[HostLine]:
    """Yield the line of each host, in the order in which the places arrive.

    None is a pause in which nothing has arrived.
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

    `by_key` is for hosts that arrive in any order: formats that show all of them are sorted.
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
                put if output.path else _until_it_fails(put, failures)
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
    codes = _end(sums, kept, targets, asked, by_key=by_key)
    with writing(None):
        for failure in failures:
            raise failure
    return sums, codes


def worst_of(codes: set[int]) -> int:
    """Return the exit code of a fleet; one of a plugin is alone and stays."""
    return next((code for code in _WORST_FIRST if code in codes), max(codes))


def _until_it_fails(put: Callable[[str], None], failures: list[OSError]) -> Callable[[str], None]:
    """Return a function that writes until writing fails: other outputs are still to be written."""

    def go_on(text: str) -> None:
        try:
            if not failures:
                put(text)
        except OSError as error:
            failures.append(error)

    return go_on


class _Lines:
    """What is kept of all hosts: exit codes, suppressions that matched, and reports if wanted."""

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


def _end(
    sums: FleetSums,
    lines: _Lines,
    targets: tuple[str, ...],
    asked: ReportOptions,
    *,
    by_key: bool,
) -> set[int]:
    """Write the formats that show all hosts and the notices, and return the exit codes."""
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


def _nameless(places: Sequence[Place], job: Job) -> dict[Place, HostLine]:
    """Audit the hosts that only their evidence names, before any other; raises UsageError."""
    known = {place: audit_place(place, job) for place in places if place.key is None}
    refuse_same_names([p._replace(key=known[p].name) if p in known else p for p in places])
    return known


def _lines(
    places: Iterable[Place | None],
    job: Job,
    known: Mapping[Place, HostLine] = MappingProxyType({}),
) -> Iterator[HostLine]:
    """Yield the line of each host, in the order of the places; `known` are those at hand.

    In a pause, None, what is finished is passed on.
    """
    most = len(places) if isinstance(places, Sized) else _MANY
    workers = min(len(os.sched_getaffinity(0)), most)
    pool = _Pool(workers, job)
    waiting: _Waiting = deque()
    try:
        for place in places:
            if place is not None:
                # The standard input of a worker is closed, so what lies there is read here.
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
    """Processes that audit hosts; one that is killed takes no other host's line with it."""

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
        """Wait for a host's line; a crash on one host is an internal error of that one."""
        if started is None:
            return audit_place(place, self._job)
        error = started.exception()
        if isinstance(error, BrokenProcessPool):
            # Which host killed the worker is not known: those in flight are tried again, alone,
            # because the killer kills whatever shares its pool a second time too.
            with _processes(1, self._job) as alone:
                started = alone.submit(_audit, place)
                error = started.exception()
        if error is None:
            return started.result()
        message = f"{place.path}: {type(error).__name__}: {error}"
        return unread(place, message, "internal", self._job)._replace(code=EXIT_INTERNAL)

    def stop(self) -> None:
        self._executor.shutdown(cancel_futures=True)


def _processes(workers: int, job: Job) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=_begin, initargs=(job,))


_HERE: dict[str, Job] = {}
"""The job of a worker, sent once: a baseline of a whole fleet is too long for each host."""


def _begin(job: Job) -> None:
    ignore_interrupts()
    _end_with_parent()
    if job.post_processing.knowledge:
        put_in_force(by_file(job.post_processing.knowledge))
    _HERE["job"] = job


def _end_with_parent() -> None:
    """End this worker when its parent ends, killed or not: it would hold standard output for ever.

    What the parent holds open is closed by the kernel, which then sends SIGIO; its default is to
    end the process, whatever that is doing.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if wait([sentinel], timeout=0):  # it ended before
        os._exit(EXIT_INTERNAL)


def _audit(place: Place) -> HostLine:
    return audit_place(place, _HERE["job"])


def _shown(lines: Iterator[HostLine], hosts: int, *, quiet: bool) -> Iterator[HostLine]:
    """Pass the lines on, and show on a terminal how many there were."""
    show = _ticker(hosts) if sys.stderr.isatty() and not quiet else None
    for number, line in enumerate(lines, start=1):
        if show is not None:
            show(number)
        yield line


def _ticker(hosts: int) -> Callable[[int], None]:
    """Return a function that repaints the status line at a limited rate.

    No thread does it: rich's does, and a fork beside a thread can hang.
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
