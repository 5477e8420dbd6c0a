"""`ext4audit scan --from`: audit evidence that was captured before, of one host or of many."""

from __future__ import annotations

import click

from ext4audit.cli.captured import audit_captured, utf8
from ext4audit.cli.fleet_host import Place
from ext4audit.cli.print_report import print_report, write_page
from ext4audit.cli.report_options import ReportOptions
from ext4audit.cli.sinks import NAGIOS
from ext4audit.policy.exit_codes import NAGIOS_UNKNOWN
from ext4audit.renderers.page import Audited
from ext4audit.sources.archive_base import ArchiveError
from ext4audit.sources.captured import STANDARD_INPUT, hosts_in

WITHOUT_UNREAD = frozenset({"text", "json"})
"""Formats of one report: where there is none, standard error says why."""


def scan_from(sources: tuple[str, ...], targets: tuple[str, ...], asked: ReportOptions) -> int:
    """Audit the sources; raises UsageError where nothing can be audited."""
    places = _places([utf8(source) for source in sources])
    words = tuple(utf8(target) for target in targets)
    if len(places) == 1:
        return _scan_one(places[0], words, asked)
    if any(sink.fmt == "json" for sink in asked.sinks):
        raise click.UsageError(f"{len(places)} hosts are not one object: use -f ndjson")
    from ext4audit.cli.fleet import scan_fleet  # noqa: PLC0415 - 30 ms, for many hosts only

    return scan_fleet(places, words, asked)


def _places(sources: list[str]) -> list[Place]:
    """Return where each host's evidence lies; raises UsageError for a source that is none."""
    if sources.count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input can be read once only")
    places = []
    try:
        for source in sources:
            hosts = hosts_in(source)
            places += [Place(source, False)] if hosts is None else [Place(h, True) for h in hosts]
    except ArchiveError as error:
        raise click.UsageError(str(error)) from None
    return places


def _scan_one(place: Place, targets: tuple[str, ...], asked: ReportOptions) -> int:
    try:
        report = audit_captured(
            place.path, asked.rules, targets, asked.profiles, in_fleet=place.in_fleet
        )
    except ArchiveError as error:
        _write_unread(place.path, str(error), asked)
        if asked.sinks[0].fmt == NAGIOS:
            return NAGIOS_UNKNOWN
        raise click.UsageError(str(error)) from None
    if targets and not report.host.filesystems:
        raise click.UsageError(f"{place.path}: no ext4 filesystem is called {', '.join(targets)}")
    return print_report(report, asked, whole=not targets)


def _write_unread(path: str, message: str, asked: ReportOptions) -> None:
    """Write the line of a host that could not be read, wherever a format has one."""
    for sink in asked.sinks:
        if sink.fmt not in WITHOUT_UNREAD:
            write_page(sink, (Audited(path, None, message),), asked)
