"""Steps as short lines: what an edit of fstab changes, and all other commands as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ext4audit.finding import LineEdit, Step


def plain(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step: "persistent: fstab 7: noatime,nobarrier -> noatime"."""
    return [f"{step.phase.value}: {_told(step)}" for step in steps]


def _told(step: Step) -> str:
    edit = step.change
    if not isinstance(edit, LineEdit):
        return step.command
    return f"fstab {edit.line_number}: {_changed(edit.before, edit.after)}"


def _changed(before: str, after: str) -> str:
    """Return the fields of fstab that differ, as they were and as they will be."""
    pairs = zip(re.split("[ \t]+", before), re.split("[ \t]+", after), strict=True)
    return ", ".join(f"{old} -> {new}" for old, new in pairs if old != new)
