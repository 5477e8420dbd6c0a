"""The text of findings by cause: their subjects, their message, and what they have in common.

The same defect on twenty filesystems is reported once, as one cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from ext4audit.finding import Citation, Remedy, few
from ext4audit.renderers.shared.rows import THE_HOST
from ext4audit.renderers.shared.subjects import Cause, Found
from ext4audit.renderers.text.blocks import Look

_FACTS_SHOWN = 4
_SUBJECTS_SHOWN = 3
_LONGEST_MOUNT_POINT = 32
"""Maximum characters of a mount point next to a count: two of them with it fit into a line."""


def message_text(cause: Cause) -> str:
    """Return the message that all findings share, or their short text if messages differ."""
    return cause.first.short if cause.messages[1:] else cause.first.message


def shared_facts(cause: Cause) -> tuple[str, tuple[Citation, ...]]:
    """Return the evidence that all findings share, without details, a few lines at most.

    If they share none, it is that of the first finding, preceded by its subject instead of "".
    """
    values = [
        {(cited.label, cited.value) for cited in finding.citations} for _, finding in cause.found
    ]
    known = set.intersection(*values)
    plain = [cited for cited in cause.first.citations if not cited.detail]
    shared = [cited for cited in plain if (cited.label, cited.value) in known]
    subject = "" if shared or not plain else _label(cause.found[0])
    return subject, tuple((shared or plain)[:_FACTS_SHOWN])


def shown_remedies(cause: Cause) -> tuple[Remedy, ...]:
    """Return the distinct remedies to show: for each finding, the safest or else the first.

    Those that a script applies come first, those without commands last, so that shown remedies
    can be typed. A remedy of the whole host is the same for all its filesystems.
    """
    chosen = (finding.main_remedy for _, finding in cause.found)
    each_once = {each.steps or each.summary: each for each in chosen if each}
    return tuple(sorted(each_once.values(), key=lambda each: (not each.steps, each.destructive)))


def without_remedy(cause: Cause) -> int:
    """Return the number of findings without a remedy, or 0 if no finding of the cause has one."""
    missing = sum(finding.main_remedy is None for _, finding in cause.found)
    return missing if missing < len(cause.found) else 0


def subjects_text(cause: Cause, total: int, look: Look, *, full: bool = False) -> str:
    """Return the names of the subjects, or for many, how many of `total` filesystems they are."""
    unique = {each.filesystem.id if each.filesystem else _label(each): each for each in cause.found}
    subjects = list(unique.values())
    labels = _distinct(subjects, _full_label if full else _label)
    if len(labels) <= _SUBJECTS_SHOWN:
        return ", ".join(labels)
    names = _distinct(subjects, _short_label)
    ends = f"{names[0]} {look.ellipsis} {names[-1]}"
    return f"{_count(subjects, total)} ({ends})"


def one_a_line(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return one cause for each line; those of the whole host with one short text are merged."""
    same: dict[object, list[Cause]] = {}
    for cause in causes:
        key = (cause.rule.code, cause.first.short) if cause.first.of_host else id(cause)
        same.setdefault(key, []).append(cause)
    return tuple(
        Cause(line[0].rule, tuple(found for each in line for found in each.found))
        for line in same.values()
    )


def _label(each: Found) -> str:
    """Return the first mount point or the device, or what a finding of the host is about."""
    if each.filesystem is None:
        return each.finding.device or each.finding.fact or THE_HOST
    points = each.filesystem.mount_points
    return points[0] if points else each.filesystem.device


def _short_label(each: Found) -> str:
    """Return the label, or the device if it is shorter than a long mount point (kubelet)."""
    label = _label(each)
    if each.filesystem is None or len(label) <= _LONGEST_MOUNT_POINT:
        return label
    return min(label, each.filesystem.device, key=len)


def _full_label(each: Found) -> str:
    """Return the mount points, followed by the device."""
    if each.filesystem is None or not each.filesystem.mount_points:
        return _label(each)
    points = few(each.filesystem.mount_points)
    return f"{points} ({each.filesystem.device})"


def _distinct(subjects: Sequence[Found], label: Callable[[Found], str]) -> list[str]:
    """Return the labels in natural order; filesystems that share one also get their devices."""
    times = Counter(map(label, subjects))
    labels = [label(each) if times[label(each)] == 1 else _full_label(each) for each in subjects]
    return sorted(labels, key=_natural)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts /mnt/d2 before /mnt/d10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _count(subjects: Sequence[Found], total: int) -> str:
    if any(each.filesystem is None for each in subjects):
        return f"{len(subjects)} places"
    return f"{len(subjects)} of {total} filesystems"
