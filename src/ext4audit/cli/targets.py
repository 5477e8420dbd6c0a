"""From what was typed to superblocks of this host, and to filesystems in image files."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from ext4audit.assemble.image import BadImage, Image, ImageFilesystem
from ext4audit.assemble.image_target import image_of_target
from ext4audit.assemble.inventory import Inventory, take_inventory
from ext4audit.assemble.target import NotExt4, Superblocks, Target, TargetResolver, Unreachable
from ext4audit.cli.diagnostics import tell
from ext4audit.facts.mount import DeviceNumber
from ext4audit.records import dataclass
from ext4audit.sources.ask import Source

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
        tell(f"{path}: not taken for an image: {found.note}")
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
                tell(f"{path}: {found.note}")
        elif isinstance(found, Image):
            images.extend(found.filesystems)
            tell(f"{path}: {'; '.join(filter(None, (READ_AS_IMAGE, found.note)))}")
        else:
            reasons.append(f"{path}: {found.reason}")
            if isinstance(found, Unreachable):
                raise click.UsageError(reasons[-1])
    if not numbers and not images:
        raise click.UsageError("; ".join(reasons))
    for reason in reasons:
        tell(reason)
    return Chosen(tuple(dict.fromkeys(numbers)), _each_once(images))


def _each_once(images: Sequence[ImageFilesystem]) -> tuple[ImageFilesystem, ...]:
    return tuple({image.device: image for image in images}.values())
