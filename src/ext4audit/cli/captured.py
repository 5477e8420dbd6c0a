"""`scan --from`: find captured evidence, assign each host a key, and audit a single host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from ext4audit import lazily
from ext4audit.api import audit_snapshot
from ext4audit.cli import print_diagnostic
from ext4audit.cli.options import ReportOptions, print_report, utf8, write_page
from ext4audit.cli.output import NAGIOS, progress
from ext4audit.facts.host import Host
from ext4audit.finding import listed
from ext4audit.renderers import Audited, visible
from ext4audit.report import NAGIOS_UNKNOWN, Report
from ext4audit.sources import ArchiveError, encode
from ext4audit.sources.captured import STANDARD_INPUT, exists, is_snapshot, key_of

_SHOWN = 5


class Place(NamedTuple):
    """The location of a host's evidence; `in_fleet` if a directory or inventory was searched.

    `key` is the operator's name for the host, None if only the evidence names it. `missing` is the
    reason why an expected host has no evidence; `path` is then its key. `label` is shown instead
    of a path that exists only during this run. `groups` are the host's groups in the inventory.
    """

    path: str
    in_fleet: bool
    key: str | None = None
    missing: str = ""
    label: str = ""
    groups: tuple[str, ...] = ()

    @property
    def is_read_here(self) -> bool:
        """Whether the evidence is on standard input, which workers cannot read."""
        return self.path == STANDARD_INPUT and not self.missing


def places_of(sources: Sequence[str], expect: str | None = None) -> list[Place]:
    """Return the place of each host; hosts that are only in the `expect` list are at the end.

    Raises UsageError for a bad source, or if two hosts have the same key.
    """
    try:
        named = [_named(utf8(source)) for source in sources]
        if [path for _, path in named].count(STANDARD_INPUT) > 1:
            raise click.UsageError("--from - can be given only once")
        ignored: list[str] = []
        places = [place for key, path in named for place in _places(key, path, ignored)]
    except ArchiveError as error:
        raise click.UsageError(str(error)) from None
    if expect is not None:
        # The list may be in the snapshot directory; it is neither a host nor an ignored file.
        places = [each for each in places if not _is_same_file(each.path, expect)]
        ignored = [path for path in ignored if not _is_same_file(path, expect)]
    refuse_same_names(places)
    if expect is not None:
        places += _missing(places, expect)
    if ignored:
        files = "1 file that is" if len(ignored) == 1 else f"{len(ignored)} files that are"
        print_diagnostic(f"ignored {files} not evidence of a host: {listed(ignored, _SHOWN)}")
    return places


def _named(word: str) -> tuple[str | None, str]:
    """Split NAME=SOURCE, unless a file has that whole name; a NAME contains no slash."""
    name, equals, path = word.partition("=")
    if not (name and equals and path) or "/" in name or exists(word):
        return None, word
    return name, path


def _places(key: str | None, path: str, ignored: list[str]) -> Iterator[Place]:
    """Yield the places of a source; raises ArchiveError, or UsageError if NAME= has many hosts."""
    is_one = path == STANDARD_INPUT or is_snapshot(path)
    fleet = None if is_one else lazily("sources.fleet", "hosts_in")(path)
    if fleet is None:
        yield Place(path, in_fleet=False, key=key or key_of(path))
        return
    ignored += fleet.ignored
    if key is not None and len(fleet.hosts) > 1:
        number = len(fleet.hosts)
        raise click.UsageError(f"{key}={path}: NAME= is for one host, but {path} holds {number}")
    for found in fleet.hosts:
        yield Place(found.path, in_fleet=True, key=key or found.key)


def refuse_same_names(places: Sequence[Place]) -> None:
    """Raise UsageError if two hosts have the same key, or keys that are printed the same."""
    taken: dict[str, Place] = {}
    for place in places:
        if place.key is None:
            continue
        first = taken.setdefault(visible(place.key), place)
        if first is not place:
            raise click.UsageError(
                f"two hosts have the name {place.key}: {first.path} and {place.path}; "
                "give one of them another name: --from NAME=SOURCE"
            )


def _missing(places: Sequence[Place], expect: str) -> list[Place]:
    """Return the expected hosts that were not found, and report unexpected hosts."""
    if any(place.key is None for place in places):
        raise click.UsageError("--expect needs a name for each source: use --from NAME=-")
    try:
        expected = dict.fromkeys(lazily("sources.fleet", "expected_names")(expect))
    except ArchiveError as error:
        raise click.UsageError(f"--expect {error}") from None
    found = {place.key for place in places}
    extra = [str(place.key) for place in places if place.key not in expected]
    if extra:
        print_diagnostic(f"not in {expect}: {listed(extra, _SHOWN)}")
    why = f"listed in {utf8(expect)}, but not found in any source"
    return [Place(name, True, name, why) for name in expected if name not in found]


def _is_same_file(path: str, other: str) -> bool:
    name = os.path.basename(other)  # noqa: PTH119 - runs for each of up to ten thousand hosts
    return path.endswith(utf8(name)) and os.path.realpath(encode(path)) == os.path.realpath(
        os.fsencode(other)
    )


def unread_host(place: Place, message: str) -> Audited:
    """Return a host without a report; without a key, its source's label is its name."""
    label = label_of(place)
    return Audited(label, None, message, key=place.key or label, groups=place.groups)


def label_of(place: Place) -> str:
    """Return the displayed name of a host's source."""
    return place.label or place.path


WITHOUT_UNREAD = frozenset({"text", "json"})
"""Formats that hold nothing for an unread host; only standard error has the reason."""


def scan_from(
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    asked: ReportOptions,
    expect: str | None = None,
) -> int:
    """Audit the sources and return the exit code; raises UsageError if nothing can be audited."""
    places = places_of(sources, expect)
    words = tuple(utf8(target) for target in targets)
    if len(places) == 1:
        return _scan_one(places[0], words, asked)
    if any(output.fmt == "json" for output in asked.outputs):
        raise click.UsageError(
            f"-f json is limited to one host, and there are {len(places)}: use -f ndjson"
        )
    code: int = lazily("cli.fleet.auditing", "scan_fleet")(places, words, asked)
    return code


def audit_one(sources: tuple[str, ...], targets: tuple[str, ...], asked: ReportOptions) -> Report:
    """Audit the sources; raises UsageError unless they hold exactly one readable host."""
    places = places_of(sources)
    if len(places) != 1:
        raise click.UsageError(f"fix is limited to one host, and --from has {len(places)}")
    try:
        with progress(quiet=asked.verbosity < 0, doing=f"reading {places[0].path}"):
            return _audited(places[0], tuple(map(utf8, targets)), asked)
    except ArchiveError as error:
        raise click.UsageError(str(error)) from None


def _audited(place: Place, targets: tuple[str, ...], asked: ReportOptions) -> Report:
    """Audit one host; raises ArchiveError, or UsageError for an unknown target."""
    try:
        report = audit_snapshot(
            place.path,
            rules=asked.rules,
            profiles=asked.profiles,
            targets=targets,
            in_fleet=place.in_fleet,
            key=place.key,
        )
    except ArchiveError:
        raise
    except ValueError as error:  # an unknown target
        raise click.UsageError(f"{place.path}: {error}") from None
    if asked.verbosity >= 0:
        _report_mounts(report.host, targets)
    return report


def _report_mounts(host: Host, targets: tuple[str, ...]) -> None:
    """Report the mount of each path; the evidence does not show whether the path exists."""
    mount_holding = lazily("assemble.devices.target", "mount_holding")
    for target in targets:
        mount = mount_holding(host, target)
        if mount is not None and mount.mount_point != (target.rstrip("/") or "/"):
            print_diagnostic(
                f"{target}: no mount point; if it exists, it is on {mount.mount_point}"
            )


def _scan_one(place: Place, targets: tuple[str, ...], asked: ReportOptions) -> int:
    try:
        with progress(quiet=asked.verbosity < 0, doing=f"reading {place.path}"):
            report = _audited(place, targets, asked)
    except ArchiveError as error:
        _write_unread(place, str(error), asked)
        if asked.outputs[0].fmt == NAGIOS:
            return NAGIOS_UNKNOWN
        raise click.UsageError(str(error)) from None
    return print_report(report, asked, whole=not targets)


def _write_unread(place: Place, message: str, asked: ReportOptions) -> None:
    """Write an unread host in each format that can represent one."""
    for output in asked.outputs:
        if output.fmt not in WITHOUT_UNREAD:
            write_page(output, (unread_host(place, message),), asked)
