"""The audit of one host of a fleet, in limited time and memory, and its summary line."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.api import audit_snapshot
from ext4audit.cli.captured import Place, label_of, unread_host
from ext4audit.cli.policy import PostProcessing
from ext4audit.facts.host import ActiveProfile
from ext4audit.finding import Severity
from ext4audit.renderers import Audited, Page, ndjson, visible
from ext4audit.renderers.shared.fleet import FoundRule, HostLine, worst_by_rule
from ext4audit.renderers.shared.subjects import set_aside_of
from ext4audit.report import EXIT_INCOMPLETE, Report, exit_code
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from ext4audit.sources import ArchiveError


class Job(NamedTuple):
    """The parameters of every audit; `rules` are codes, which can be sent to another process.

    `site_rules` are the files and packages of rules that the policy names.

    `pages` are the settings of formats that are written host by host. `keep` means that lines
    include the reports, for formats that show all hosts together.
    """

    rules: frozenset[str]
    targets: tuple[str, ...]
    profiles: tuple[ActiveProfile, ...]
    post_processing: PostProcessing
    threshold: Severity | None
    allow_incomplete: bool
    pages: tuple[tuple[str, Page], ...]
    keep: bool
    site_rules: tuple[str, ...] = ()


def ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker, which would print a traceback; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def audit_place(place: Place, job: Job) -> HostLine:
    """Audit one host; unreadable hosts and those that exceed a limit also get a line."""
    if place.missing:
        return unread(place, ArchiveError(place.missing, place.path), "unreadable", job)
    # What this process reads has no time limit, because the writer of a pipe may be slow.
    seconds = 0 if place.is_read_here or place.key is None else LONGEST_SECONDS
    try:
        with resource_limits(seconds, LARGEST_BYTES):
            report = _report(place, job)
    except ArchiveError as error:
        return unread(place, error, "unreadable", job)
    except TimeLimitExceeded:
        why = f"takes more than {seconds:g} s"
        return unread(place, ArchiveError(why, place.path), "unreadable", job)
    except MemoryError:
        why = f"takes more than {LARGEST_BYTES >> 20} MiB of memory"
        return unread(place, ArchiveError(why, place.path), "unreadable", job)
    report, used, undetermined = job.post_processing.apply(report)
    return HostLine(
        name=report.key,
        rendered=tuple(_rendered(report, fmt, page) for fmt, page in job.pages),
        code=exit_code(report, job.threshold, allow_incomplete=job.allow_incomplete),
        complete=report.complete_for(job.threshold),
        matched=bool(report.host.filesystems),
        found=tuple(
            FoundRule(rule.code, rule.name, worst) for rule, worst in worst_by_rule(report)
        ),
        host=Audited(label_of(place), report, key=report.key) if job.keep else None,
        groups=place.groups,
        used=used,
        undetermined=undetermined,
        aside=set_aside_of(report),
    )


def _report(place: Place, job: Job) -> Report:
    report = audit_snapshot(
        place.path,
        rules=[rule for rule in _catalogue(job) if rule.code in job.rules],
        profiles=job.profiles,
        targets=job.targets,
        in_fleet=place.in_fleet,
        key=place.key,
        may_lack_targets=True,
    )
    source = report.source._replace(groups=place.groups)
    if place.label:
        source = source._replace(label=place.label, has_path=False)
    return report._replace(source=source)


def _catalogue(job: Job) -> tuple[Rule, ...]:
    """Return all rules that a job can select from."""
    if not job.site_rules:
        return all_rules()
    policy = job.post_processing.policy or ""
    return (*all_rules(), *lazily("cli.policy.site_rules", "loaded")(job.site_rules, policy))


def unread(place: Place, error: ArchiveError, kind: str, job: Job) -> HostLine:
    """Return the line of a host without a report; a label takes the place of a temporary path."""
    code = 0 if job.allow_incomplete else EXIT_INCOMPLETE
    message = f"{place.label}: {error.reason}" if place.label else str(error)
    host = unread_host(place, message)
    return HostLine(
        host.key,
        tuple(_unread_text(host, kind, fmt, page) for fmt, page in job.pages),
        code,
        complete=False,
        unread=error.reason,
        host=host if job.keep else None,
        groups=place.groups,
    )


def _unread_text(host: Audited, kind: str, fmt: str, page: Page) -> str:
    if fmt == "ndjson":
        return ndjson.render_unread(host, kind=kind, tool_version=page.tool_version)
    if page.verbosity < 0:
        return ""
    text = f"{host.key} could not be read: {host.error}"
    return visible(text, ascii_only=page.ascii_only) + "\n\n"


def _rendered(report: Report, fmt: str, page: Page) -> str:
    """Render the report in a format; text is empty unless -v adds the report of each host."""
    if fmt == "ndjson":
        return ndjson.render_report(report, tool_version=page.tool_version)
    if page.verbosity < 0:
        return ""
    text: str = lazily("renderers.text", "render_report")(report, page)
    return f"{text}\n"


LONGEST_SECONDS = 60.0
_AGAIN_SECONDS = 2.0
"""Interval of further alarms: Python drops an exception that a destructor raises."""
LARGEST_BYTES = 256 << 20
_THREAD_BYTES = 80 << 20
"""Address space that a thread reserves but hardly uses: a stack and a malloc(3) arena."""
_STATM = "/proc/self/statm"


class TimeLimitExceeded(KeyboardInterrupt):
    """Raised if a host exceeds the time limit.

    It is not an Exception, because handlers that convert these to unknown evidence would continue
    with the host. Signal handlers always raise a KeyboardInterrupt, which no handler catches.
    """


@contextmanager
def resource_limits(seconds: float, count_bytes: int) -> Iterator[None]:
    """Limit a block on the main thread; exceeding raises TimeLimitExceeded or MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    before = signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (min([_in_use() + count_bytes, *most]), hard))
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm can still come before it, and raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def _stop(_signal: int, _frame: object) -> None:
    raise TimeLimitExceeded


def _in_use() -> int:
    """Return the bytes of address space in use, plus a thread's (proc_pid_statm(5))."""
    with open(_STATM, "rb") as file:  # noqa: PTH123 - runs for each of ten thousand hosts
        return int(file.read().split()[0]) * resource.getpagesize() + _THREAD_BYTES
