"""One host of a fleet, from its evidence to its line; runs in a process of its own."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.api import audit_snapshot
from ext4audit.cli.app import lazily
from ext4audit.cli.policy import PostProcessing
from ext4audit.facts.profile import ActiveProfile
from ext4audit.finding import Severity
from ext4audit.policy.exit_codes import EXIT_INCOMPLETE, exit_code
from ext4audit.renderers import ndjson
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.fleet import FoundRule, HostLine
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.report import Report
from ext4audit.rules import all_rules
from ext4audit.sources.containers.tree import ArchiveError


def utf8(word: str) -> str:
    """Return a word of the command line as names are everywhere: UTF-8 with surrogateescape."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")


class Job(NamedTuple):
    """What is asked of every host; rules by their codes, for the way into another process.

    `pages` are how the formats look that are written host by host, by format. `keep` says that
    the reports are wanted too, for the formats that show all hosts together.
    """

    rules: frozenset[str]
    targets: tuple[str, ...]
    profiles: tuple[ActiveProfile, ...]
    post_processing: PostProcessing
    threshold: Severity | None
    allow_incomplete: bool
    pages: tuple[tuple[str, Page], ...]
    keep: bool


class Place(NamedTuple):
    """Where a host's evidence lies; `in_fleet`, where it was found and not named."""

    path: str
    in_fleet: bool


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent: it reaches the whole group, and each would print a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def audit_place(place: Place, job: Job) -> HostLine:
    """Audit one host; what cannot be read is a line too."""
    rules = [rule for rule in all_rules() if rule.code in job.rules]
    try:
        report = audit_snapshot(
            place.path,
            rules=rules,
            profiles=job.profiles,
            targets=job.targets,
            in_fleet=place.in_fleet,
        )
    except ArchiveError as error:
        return unread(place.path, str(error), "unreadable", job)
    report, used, blind = job.post_processing.apply(report)
    return HostLine(
        name=_last_part(place.path),
        rendered=tuple(_rendered(report, place.path, fmt, page) for fmt, page in job.pages),
        code=exit_code(report, job.threshold, allow_incomplete=job.allow_incomplete),
        complete=report.complete,
        matched=bool(report.host.filesystems),
        found=_found(report),
        host=Audited(place.path, report) if job.keep else None,
        used=used,
        undetermined=blind,
    )


def unread(path: str, message: str, kind: str, job: Job) -> HostLine:
    """Return the line of a host that gave no report."""
    code = 0 if job.allow_incomplete else EXIT_INCOMPLETE
    return HostLine(
        _last_part(path),
        tuple(_unread_text(path, message, kind, fmt, page) for fmt, page in job.pages),
        code,
        complete=False,
        error=message,
        host=Audited(path, None, message) if job.keep else None,
    )


def _unread_text(path: str, message: str, kind: str, fmt: str, page: Page) -> str:
    if fmt == "ndjson":
        return ndjson.render_unread(path, message, kind=kind, tool_version=page.tool_version)
    return visible(f"could not be read: {message}", ascii_only=page.ascii_only) + "\n"


def _last_part(path: str) -> str:
    """Return the name that tells hosts apart in a sum: many are called "localhost"."""
    return path.rstrip("/").rpartition("/")[2] or path


def names_of(places: Sequence[Place]) -> list[str]:
    """Return what each place is called in a sum: its whole path where others end alike."""
    ends = [_last_part(place.path) for place in places]
    times = Counter(ends)
    return [end if times[end] == 1 else place.path for end, place in zip(ends, places, strict=True)]


def _rendered(report: Report, path: str, fmt: str, page: Page) -> str:
    if fmt == "ndjson":
        return ndjson.render_report(report, tool_version=page.tool_version)
    text = lazily("renderers.text", "render_report")(report, page)
    return f"{visible(path, ascii_only=page.ascii_only)}: {text}"


def _found(report: Report) -> tuple[FoundRule, ...]:
    worst: dict[str, FoundRule] = {}
    for verdict in report.verdicts:
        rule = verdict.rule
        for finding in (each for each in verdict.findings if each.counts):
            known = worst.get(rule.code)
            if known is None or not known.worst.at_least(finding.severity):
                worst[rule.code] = FoundRule(rule.code, rule.name, finding.severity)
    return tuple(worst.values())
