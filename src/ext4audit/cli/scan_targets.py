"""`ext4audit scan TARGET…`: audit what the targets stand for, also image files."""

from __future__ import annotations

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.image import ImageFilesystem
from ext4audit.cli.progress import progress
from ext4audit.cli.report_options import ReportOptions, now
from ext4audit.cli.targets import choose_targets
from ext4audit.engine import audit
from ext4audit.report import Report, Source
from ext4audit.rule import Scope
from ext4audit.sources.live import LiveSource

OF_IMAGES_TOO = frozenset({"HLT003"})
"""The rules about a host that judge what no host has mounted: an image left unclean."""


def scan_targets(source: LiveSource, targets: tuple[str, ...], asked: ReportOptions) -> Report:
    """Judge what the targets stand for; raises UsageError when nothing is left to judge."""
    chosen = choose_targets(source, targets)
    if not chosen.device_numbers:
        return _of_images(chosen.images, asked)
    with progress(quiet=asked.verbosity < 0) as show:
        host = assemble_host(source, now(), only=chosen.device_numbers, progress=show)
    if chosen.images:
        from ext4audit.assemble.image_host import with_images  # noqa: PLC0415 - for images only

        host = with_images(host, chosen.images)
    return audit(Source("live", host.name), host, asked.rules, asked.profiles)


def _of_images(images: tuple[ImageFilesystem, ...], asked: ReportOptions) -> Report:
    """Judge images alone: there is no host, so that most rules about one have no subject."""
    from ext4audit.assemble.image_host import host_of_images  # noqa: PLC0415 - for images only

    name = ", ".join(dict.fromkeys(image.path for image in images))
    rules = [r for r in asked.rules if r.scope is Scope.FILESYSTEM or r.code in OF_IMAGES_TOO]
    return audit(Source("image", name), host_of_images(images, now(), name), rules, asked.profiles)
