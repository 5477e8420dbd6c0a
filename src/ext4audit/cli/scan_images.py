"""Audit image files: alone, or together with filesystems of this host."""

from __future__ import annotations

from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.image_host import host_of_images, with_images
from ext4audit.cli.progress import progress
from ext4audit.cli.report_options import ReportOptions, now
from ext4audit.cli.targets import Chosen
from ext4audit.engine import audit
from ext4audit.report import Report, Source
from ext4audit.rule import Scope
from ext4audit.sources.live import LiveSource


def scan_images(source: LiveSource, chosen: Chosen, asked: ReportOptions) -> Report:
    """Judge the images, and what else was chosen.

    Where all targets are images there is no host to judge: rules about one have no subject.
    """
    if not chosen.device_numbers:
        paths = dict.fromkeys(image.path for image in chosen.images)
        host = host_of_images(chosen.images, now(), ", ".join(paths))
        rules = [rule for rule in asked.rules if rule.scope is Scope.FILESYSTEM]
        return audit(Source("image", host.name), host, rules)
    with progress(quiet=asked.verbosity < 0) as show:
        host = assemble_host(source, now(), only=chosen.device_numbers, progress=show)
    whole = with_images(host, chosen.images)
    return audit(Source("live", host.name), whole, asked.rules)
