"""The call of `ext4audit fix` that makes one script of a report's remedies."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Remedy, Severity
from ext4audit.renderers.shared.terms import USUAL_THRESHOLD
from ext4audit.report import ARCHIVES, Report

_IMAGES = frozenset({"image", "e2image"})
_UNNAMED = "standard input"
"""The label of captured evidence that no command can read a second time."""
_MOST_TARGETS = 3


def fix_command(report: Report, threshold: Severity | None) -> str:
    """Return the call of `ext4audit fix` that covers the findings at `threshold` or worse.

    Empty where no remedy of theirs can be run, and where no script could be: a plan and an image
    are no host, and standard input cannot be read again.
    """
    source = _source_words(report)
    if source is None or threshold is None:
        return ""
    found = list(_runnable(report, threshold))
    if not found:
        return ""
    words = ["ext4audit", "fix", *source]
    if threshold is not USUAL_THRESHOLD:
        words += ["--fail-on", threshold.value]
    most = max((remedy.disruption for _, remedy in found), key=lambda each: each.rank)
    if most is not Disruption.ONLINE:
        words += ["--disruption", most.value]
    words += _targets([fs for fs, _ in found])
    return " ".join(map(shlex.quote, words)) if all(map(_is_plain, words)) else ""


def _source_words(report: Report) -> list[str] | None:
    """Return the words that name the host; none for this one, None where no words can."""
    kind, label = report.source.kind, report.source.label
    if kind == "live":
        return []
    if kind not in {"snapshot", *ARCHIVES} or label == _UNNAMED:
        return None
    return ["--from", label]


def _runnable(report: Report, threshold: Severity) -> Iterator[tuple[Filesystem | None, Remedy]]:
    """Yield the safest remedy of each finding, with the filesystem; none of an image."""
    filesystems = {fs.id: fs for fs in report.host.filesystems}
    for verdict in report.verdicts:
        fs = filesystems.get(verdict.filesystem_id or "")
        for finding in verdict.findings:
            remedy = finding.safest_remedy
            counts = finding.counts and finding.severity.at_least(threshold)
            if counts and remedy is not None and not _is_image(fs):
                yield fs, remedy


def _is_image(fs: Filesystem | None) -> bool:
    return fs is not None and isinstance(fs.stack, Known) and fs.stack.value.kind in _IMAGES


def _targets(found: Sequence[Filesystem | None]) -> list[str]:
    """Return a path of each filesystem; none where they are many: all is then simpler to type."""
    targets = dict.fromkeys(_target(fs) for fs in found if fs is not None)
    named = [target for target in targets if target is not None]
    return named if len(named) == len(targets) <= _MOST_TARGETS else []


def _target(fs: Filesystem) -> str | None:
    """Return a mount point that leads to the filesystem, or its device; None if both are odd."""
    seen = {mount.mount_point for mount in fs.mounts if not mount.overmounted}
    paths = (*(each for each in fs.mount_points if each in seen), fs.device)
    return next((each for each in paths if _is_plain(each)), None)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isprintable()
