"""What `scan` audits beside this host: TARGETs, image files and captured evidence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import click

from ext4audit import report
from ext4audit.api import audit_snapshot
from ext4audit.assemble.devices.target import (
    NotExt4,
    Superblocks,
    Target,
    TargetResolver,
    Unreachable,
)
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.image import BadImage, Image, ImageFilesystem
from ext4audit.assemble.image.host import host_of_images, image_of_target, with_images
from ext4audit.assemble.inventory import Inventory, take_inventory
from ext4audit.cli.app import lazily, print_diagnostic
from ext4audit.cli.fleet_host import Place, utf8
from ext4audit.cli.options import ReportOptions
from ext4audit.cli.output import NAGIOS
from ext4audit.cli.reports import print_report, write_page
from ext4audit.cli.terminal import progress
from ext4audit.engine import audit
from ext4audit.facts.mount import DeviceNumber
from ext4audit.policy.exit_codes import NAGIOS_UNKNOWN
from ext4audit.renderers.shared.page import Audited
from ext4audit.report import Report
from ext4audit.rule import Scope
from ext4audit.sources.ask import Source
from ext4audit.sources.captured import STANDARD_INPUT, hosts_in
from ext4audit.sources.containers.tree import ArchiveError
from ext4audit.sources.live import LiveSource
from ext4audit.sources.text import utc_now

READ_AS_IMAGE = "an image, audited from its bytes; its directory stands for what it lies on"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the targets stand for, each once, in the order in which they were typed."""

    device_numbers: tuple[DeviceNumber, ...]
    images: tuple[ImageFilesystem, ...]


def resolve_targets(source: Source, targets: Sequence[str]) -> frozenset[DeviceNumber]:
    """Return the superblocks of the targets; raises UsageError when nothing is left."""
    resolver = TargetResolver(source, take_inventory(source))
    found = [resolver.resolve(path) for path in map(_utf8, targets)]
    return frozenset(_sort(targets, found).device_numbers)


def choose_targets(source: Source, targets: Sequence[str]) -> Chosen:
    """Return the superblocks of the targets, and the filesystems of those that are image files.

    Raises UsageError when nothing is left.
    """
    inventory = take_inventory(source)
    return _sort(targets, [_look_at(source, inventory, path) for path in map(_utf8, targets)])


def _utf8(target: str) -> str:
    """Return a name as it is everywhere: UTF-8 with surrogateescape, whatever the locale."""
    return os.fsencode(target).decode("utf-8", "surrogateescape")


def _look_at(source: Source, inventory: Inventory, path: str) -> Target | Image:
    found = image_of_target(source, inventory, path)
    if isinstance(found, Image | Superblocks):
        return found
    if isinstance(found, BadImage):
        return NotExt4(f"{found.reason}; its directory stands for what it lies on")
    if found.note:
        print_diagnostic(f"{path}: not taken for an image: {found.note}")
    return TargetResolver(source, inventory).resolve(path)


def _sort(targets: Sequence[str], looked: Sequence[Target | Image]) -> Chosen:
    """Tell what is not obvious, and refuse what leaves nothing or was mistyped."""
    numbers: list[DeviceNumber] = []
    images: list[ImageFilesystem] = []
    reasons = []
    for path, found in zip(map(_utf8, targets), looked, strict=True):
        if isinstance(found, Superblocks):
            numbers.extend(found.device_numbers)
            if found.note:
                print_diagnostic(f"{path}: {found.note}")
        elif isinstance(found, Image):
            images.extend(found.filesystems)
            print_diagnostic(f"{path}: {'; '.join(filter(None, (READ_AS_IMAGE, found.note)))}")
        else:
            reasons.append(f"{path}: {found.reason}")
            if isinstance(found, Unreachable):
                raise click.UsageError(reasons[-1])
    if not numbers and not images:
        raise click.UsageError("; ".join(reasons))
    for reason in reasons:
        print_diagnostic(reason)
    return Chosen(tuple(dict.fromkeys(numbers)), _each_once(images))


def _each_once(images: Sequence[ImageFilesystem]) -> tuple[ImageFilesystem, ...]:
    return tuple({image.device: image for image in images}.values())


OF_IMAGES_TOO = frozenset({"HLT003"})
"""The rules about a host that judge what no host has mounted: an image left unclean."""


def scan_targets(targets: tuple[str, ...], asked: ReportOptions, timeout_seconds: float) -> Report:
    """Judge what the targets stand for; raises UsageError when nothing is left to judge."""
    source = LiveSource(timeout_seconds=timeout_seconds)
    chosen = choose_targets(source, targets)
    if not chosen.device_numbers:
        return _of_images(chosen.images, asked)
    with progress(quiet=asked.verbosity < 0) as show:
        host = assemble_host(source, utc_now(), only=chosen.device_numbers, progress=show)
    if chosen.images:
        host = with_images(host, chosen.images)
    return audit(report.Source("live", host.name), host, asked.rules, asked.profiles)


def _of_images(images: tuple[ImageFilesystem, ...], asked: ReportOptions) -> Report:
    """Judge images alone: there is no host, so that most rules about one have no subject."""
    name = ", ".join(dict.fromkeys(image.path for image in images))
    rules = [r for r in asked.rules if r.scope is Scope.FILESYSTEM or r.code in OF_IMAGES_TOO]
    source = report.Source("image", name)
    return audit(source, host_of_images(images, utc_now(), name), rules, asked.profiles)


WITHOUT_UNREAD = frozenset({"text", "json"})
"""Formats of one report: where there is none, standard error says why."""


def scan_from(sources: tuple[str, ...], targets: tuple[str, ...], asked: ReportOptions) -> int:
    """Audit the sources; raises UsageError where nothing can be audited."""
    places = _places([utf8(source) for source in sources])
    words = tuple(utf8(target) for target in targets)
    if len(places) == 1:
        return _scan_one(places[0], words, asked)
    if any(output.fmt == "json" for output in asked.outputs):
        raise click.UsageError(f"{len(places)} hosts are not one object: use -f ndjson")
    code: int = lazily("cli.fleet", "scan_fleet")(places, words, asked)
    return code


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
        report = audit_snapshot(
            place.path,
            rules=asked.rules,
            profiles=asked.profiles,
            targets=targets,
            in_fleet=place.in_fleet,
        )
    except ArchiveError as error:
        _write_unread(place.path, str(error), asked)
        if asked.outputs[0].fmt == NAGIOS:
            return NAGIOS_UNKNOWN
        raise click.UsageError(str(error)) from None
    if targets and not report.host.filesystems:
        raise click.UsageError(f"{place.path}: no ext4 filesystem is called {', '.join(targets)}")
    return print_report(report, asked, whole=not targets)


def _write_unread(path: str, message: str, asked: ReportOptions) -> None:
    """Write the line of a host that could not be read, wherever a format has one."""
    for output in asked.outputs:
        if output.fmt not in WITHOUT_UNREAD:
            write_page(output, (Audited(path, None, message),), asked)
