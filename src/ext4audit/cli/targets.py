"""Resolution of TARGET arguments to superblocks and images, and the audit of these."""

from collections.abc import Sequence
from typing import NamedTuple

import click

from ext4audit import lazily
from ext4audit.assemble.devices.target import (
    BadImage,
    Image,
    ImageFilesystem,
    NotExt4,
    Superblocks,
    Target,
    TargetResolver,
    Unreachable,
    in_words,
)
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import Inventory, take_inventory
from ext4audit.cli import print_diagnostic
from ext4audit.cli.options import ReportOptions, utf8
from ext4audit.cli.output import progress
from ext4audit.engine import audit
from ext4audit.evidence import Unknown
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Report, ReportSource
from ext4audit.rule import Rule, Scope
from ext4audit.sources import Source, utc_now

READ_AS_IMAGE = "audited as an image; to audit the filesystem that holds it, name its directory"
ONLY_OF_HOSTS = (
    "an image file, which a snapshot cannot hold: scan it where it lies; to capture the filesystem "
    "that holds it, name its directory"
)


class SelectedTargets(NamedTuple):
    """The superblocks and images of the targets, without duplicates, in command-line order.

    `gaps` are the parts of images that cannot be audited.
    """

    device_numbers: tuple[DeviceNumber, ...]
    images: tuple[ImageFilesystem, ...]
    gaps: tuple[Unknown, ...] = ()


def resolve_one(source: Source, inventory: Inventory, path: str) -> Superblocks:
    """Return the superblocks of a path; raises UsageError if it has none."""
    found = TargetResolver(source, inventory).resolve(path)
    if not isinstance(found, Superblocks):
        raise click.UsageError(f"{in_words([path])}: {found.reason}")
    return found


def resolve_targets(source: Source, targets: Sequence[str]) -> frozenset[DeviceNumber]:
    """Return the superblocks of the targets; raises UsageError if there are none.

    As in `scan`, an image file does not select the filesystem that contains the file.
    """
    results = _resolve_all(source, targets)
    found = [NotExt4(ONLY_OF_HOSTS) if isinstance(each, Image) else each for each in results]
    return frozenset(_grouped(targets, found).device_numbers)


def _resolve_all(source: Source, targets: Sequence[str]) -> list[Target | Image]:
    """Resolve each target."""
    inventory = take_inventory(source)
    return [_resolve(source, inventory, utf8(target)) for target in targets]


def _resolve(source: Source, inventory: Inventory, path: str) -> Target | Image:
    """Resolve a target; the code for images is imported only if it is a regular file."""
    resolver = TargetResolver(source, inventory)
    if not resolver.is_file(path):
        return resolver.resolve(path)
    found = lazily("assemble.image.host", "image_of_target")(source, inventory, path)
    if isinstance(found, Image | Superblocks):
        return found
    if isinstance(found, BadImage):
        return NotExt4(f"{found.reason}; to audit the filesystem that holds it, name its directory")
    if found.note:
        print_diagnostic(f"{path}: not an image: {found.note}")
    return resolver.resolve(path)


def _grouped(targets: Sequence[str], results: Sequence[Target | Image]) -> SelectedTargets:
    """Group resolved targets and print notes; raises UsageError for bad targets or none left."""
    numbers: list[DeviceNumber] = []
    images: list[ImageFilesystem] = []
    reasons = []
    for path, found in zip(map(utf8, targets), results, strict=True):
        if isinstance(found, Superblocks):
            numbers.extend(found.device_numbers)
            if found.note:
                print_diagnostic(f"{path}: {found.note}")
        elif isinstance(found, Image):
            images.extend(found.filesystems)
            print_diagnostic(f"{path}: {'; '.join(filter(None, (READ_AS_IMAGE, found.note)))}")
        else:
            reasons.append(f"{in_words([path])}: {found.reason}")
            if isinstance(found, Unreachable):
                raise click.UsageError(reasons[-1])
    if not numbers and not images:
        raise click.UsageError("; ".join(reasons))
    for reason in reasons:
        print_diagnostic(reason)
    gaps = tuple(gap for found in results if isinstance(found, Image) for gap in found.gaps)
    each_once = {image.device: image for image in images}.values()
    return SelectedTargets(tuple(dict.fromkeys(numbers)), tuple(each_once), gaps)


def _applies_to_images(rule: Rule, asked: ReportOptions) -> bool:
    """Return whether a host rule also applies to images, as rules that failed to load do."""
    if rule.code in OF_IMAGES_TOO or not asked.site_rules:
        return rule.code in OF_IMAGES_TOO
    return bool(lazily("policy.site_rules", "is_broken")(rule))


OF_IMAGES_TOO = frozenset({"HLT003"})
"""The host rules that also apply to images, which can be unclean, too."""


def scan_targets(targets: tuple[str, ...], asked: ReportOptions, source: Source) -> Report:
    """Audit the filesystems of the targets; raises UsageError if there are none."""
    chosen = _grouped(targets, _resolve_all(source, targets))
    gaps = chosen.gaps
    if chosen.images:
        gaps += lazily("assemble.image.host", "image_gaps")(source, chosen.images)
    if not chosen.device_numbers:
        return _audit_images(chosen.images, gaps, asked)
    with progress(quiet=asked.verbosity < 0) as show:
        host = assemble_host(source, utc_now(), only=chosen.device_numbers, progress=show)
    if chosen.images:
        host = lazily("assemble.image.host", "with_images")(host, chosen.images, gaps)
    return audit(ReportSource("live", host.name), host, asked.rules, asked.profiles)


def _audit_images(
    images: tuple[ImageFilesystem, ...], gaps: tuple[Unknown, ...], asked: ReportOptions
) -> Report:
    """Audit images only; without a host, most host rules have no subject."""
    name = ", ".join(dict.fromkeys(image.path for image in images))
    rules = [r for r in asked.rules if r.scope is Scope.FILESYSTEM or _applies_to_images(r, asked)]
    source = ReportSource("image", name)
    host = lazily("assemble.image.host", "host_of_images")(images, utc_now(), name, gaps)
    return audit(source, host, rules, asked.profiles)
