"""`scan TARGET…`: the superblocks that paths and devices stand for, and image files."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import click

from ext4audit import report
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
from ext4audit.cli.app import print_diagnostic
from ext4audit.cli.options import ReportOptions
from ext4audit.cli.terminal import progress
from ext4audit.engine import audit
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Report
from ext4audit.rule import Scope
from ext4audit.sources.ask import Source
from ext4audit.sources.live import LiveSource
from ext4audit.sources.text import utc_now

READ_AS_IMAGE = "an image, audited from its bytes; its directory stands for what it lies on"


class Chosen(NamedTuple):
    """The superblocks and images of the targets, each once, in the order of the command line."""

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
    """Return a name as UTF-8 with surrogateescape, independent of the locale."""
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
    """Report notes, and refuse mistyped targets and a command line without any filesystem."""
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
"""The host rules that also judge images: an image can be left unclean."""


def scan_targets(targets: tuple[str, ...], asked: ReportOptions, timeout_seconds: float) -> Report:
    """Judge the filesystems of the targets; raises UsageError when none is left."""
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
    """Judge images alone: without a host, most host rules have no subject."""
    name = ", ".join(dict.fromkeys(image.path for image in images))
    rules = [r for r in asked.rules if r.scope is Scope.FILESYSTEM or r.code in OF_IMAGES_TOO]
    source = report.Source("image", name)
    return audit(source, host_of_images(images, utc_now(), name), rules, asked.profiles)
